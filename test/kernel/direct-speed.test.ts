import type { ChildProcess } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { transportInterface } from '../../lab/node/topology.ts';
import { nodePaths } from '../../lab/plan/names.ts';
import { type Family, parseIp } from '../../src/base/net/ip.ts';
import { serverIn, throughput } from '../bench/pipeline-rows.ts';
import { median } from '../bench/row.ts';
import { ConvergeLab, until } from '../support/converge-lab.ts';

const iperfPort = 5201;
const rounds = 21;
/** Node 1 sends to node 2 directly, and to node 3, which is in `encap`, through the tunnel; one underlay, in the same minutes. */
const ways = { direct: 2, tunnel: 3 } as const;
type Way = keyof typeof ways;

/** Speed of a pod's transfer to another node with the tunnel and without. Emulated or not: only the quotient says something. */
describe('a transfer between nodes', () => {
  let lab: ConvergeLab;
  const servers: ChildProcess[] = [];

  beforeAll(async () => {
    lab = await ConvergeLab.start(3, undefined, { mode: 'hybrid' });
    await lab.startPods();
    const { agentConfig } = nodePaths(lab.plan.dir, lab.node(ways.tunnel).name);
    writeFileSync(agentConfig, readFileSync(agentConfig, 'utf8').replace(/^trafficEncapMode: .*$/m, 'trafficEncapMode: encap'));
    await lab.agent(ways.tunnel, 'stop');
    await lab.agent(ways.tunnel, 'start');
    await lab.untilReady(ways.tunnel);
    for (const [from, to, device] of [
      [1, ways.direct, transportInterface(lab.plan)],
      [ways.direct, 1, transportInterface(lab.plan)],
      [1, ways.tunnel, 'antrea-gw0'],
      [ways.tunnel, 1, 'antrea-gw0'],
    ] as const)
      await until(
        async () => (await deviceTo(from, to)) === device,
        60_000,
        () => `node ${from} does not send to node ${to} by ${device}`,
      );
    for (const number of Object.values(ways))
      servers.push(await serverIn(lab.pod(`web-${number}`).netns, 'iperf3', '-s', '-p', `${iperfPort}`, '--forceflush'));
  });
  afterAll(async () => {
    for (const server of servers) server.kill('SIGKILL');
    await lab?.remove();
  });

  const ipOf = (pod: string, family: Family): string => lab.pod(pod).ips.find((ip) => parseIp(ip).family === family) ?? '';

  async function deviceTo(from: number, to: number): Promise<string> {
    return /dev (\S+)/.exec(await lab.exec(from, 'ip', 'route', 'get', ipOf(`web-${to}`, 'ipv4')))?.[1] ?? '';
  }

  it.each(['ipv4', 'ipv6'] as const)('is as fast without the tunnel over %s', { timeout: 1_200_000 }, async (family) => {
    const rates: Record<Way, number[]> = { direct: [], tunnel: [] };
    for (let round = 0; round < rounds; round++)
      for (const way of round % 2 === 0 ? (['direct', 'tunnel'] as const) : (['tunnel', 'direct'] as const))
        rates[way].push(await throughput(lab.pod('client-1').netns, ipOf(`web-${ways[way]}`, family)));
    const [direct, tunnel] = [median(rates.direct), median(rates.tunnel)];
    const print = (values: readonly number[]) => values.map((value) => value.toFixed(3)).join(' ');
    console.info(`${family}: direct ${print(rates.direct)} Gbit/s; tunnel ${print(rates.tunnel)} Gbit/s; ${(direct / tunnel).toFixed(2)}`);
    expect(direct).toBeGreaterThanOrEqual(tunnel);
  });
});
