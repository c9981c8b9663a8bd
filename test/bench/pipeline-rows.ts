import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { inNetns, runIn } from '../../lab/machine/netns.ts';
import { antreaShaped, type ShapedPort } from './antrea-shaped.ts';
import { type BenchLab, until } from './bench-lab.ts';
import type { BenchPod, CniSide } from './cni-side.ts';
import { compiled } from './compiled.ts';
import type { Measured } from './row.ts';

export const pipelineRowNames = ['pipeline.tcp', 'pipeline.tcp.limit', 'pipeline.rtt', 'pipeline.rtt.limit'] as const;

const pipelines = ['ours', 'antrea', 'normal'] as const;
type Pipeline = (typeof pipelines)[number];

const rounds = 7;
const tcpSeconds = 2;
const roundTrips = 5_000;
const port = { iperf: 5201, roundTrips: 5300 } as const;
const signal = new AbortController().signal;

/**
 * One pod to another on its node, over the same two interfaces, with three sets of flows in turn: ours, those of `antreaShaped`, and a
 * single NORMAL, the minimum for a switch. The agent is stopped meanwhile, because it would restore its flows.
 */
export async function pipelineRows(lab: BenchLab, side: CniSide, selected: (name: string) => boolean): Promise<Measured[]> {
  const [server, client] = side.attached.slice(-2);
  if (!server || !client) throw new Error('two pods are needed');
  await lab.agent('stop');
  const files = await writePipelines(lab, side, [server, client]);
  const to = attachmentOf(side, server).ip;
  const servers = [
    await serverIn(server.netns, 'iperf3', '-s', '-p', String(port.iperf), '--forceflush'),
    await serverIn(server.netns, compiled('round-trips'), 'serve', to, String(port.roundTrips)),
  ];
  const tcp: Values = { ours: [], antrea: [], normal: [] };
  const rtt: Values = { ours: [], antrea: [], normal: [] };
  try {
    for (let round = 0; round < rounds; round++)
      for (const pipeline of round % 2 === 0 ? pipelines : pipelines.toReversed()) {
        await lab.exec('ovs-ofctl', '-O', 'OpenFlow15', '--bundle', 'replace-flows', 'br-int', files[pipeline]);
        if (wantsAny(selected, 'pipeline.tcp')) tcp[pipeline].push(await throughput(client.netns, to));
        if (wantsAny(selected, 'pipeline.rtt')) rtt[pipeline].push(await roundTripMicroseconds(client.netns, to));
      }
  } finally {
    for (const process of servers) process.kill('SIGKILL');
    await lab.exec('ovs-ofctl', '-O', 'OpenFlow15', '--bundle', 'replace-flows', 'br-int', files.ours);
    await lab.agent('start');
    await lab.untilReady();
  }
  return [...measured('pipeline.tcp', 'Gbit/s', tcp), ...measured('pipeline.rtt', 'µs', rtt)].filter(({ name }) => selected(name));
}

type Values = Record<Pipeline, number[]>;

function measured(name: string, unit: string, { ours, antrea, normal }: Values): Measured[] {
  if (ours.length === 0) return [];
  return [
    { name, unit, ours, peer: { name: 'Antrea-shaped pipeline', values: antrea } },
    { name: `${name}.limit`, unit, ours, peer: { name: 'one NORMAL flow', values: normal } },
  ];
}

function wantsAny(selected: (name: string) => boolean, name: string): boolean {
  return selected(name) || selected(`${name}.limit`);
}

async function writePipelines(lab: BenchLab, side: CniSide, pods: readonly BenchPod[]): Promise<Record<Pipeline, string>> {
  const folder = join(lab.paths.dir, 'bench');
  const flows: Record<Pipeline, string> = {
    ours: (await lab.exec('ovs-ofctl', '-O', 'OpenFlow15', '--no-stats', 'dump-flows', 'br-int'))
      .split('\n')
      .filter((line) => line.includes('actions='))
      .join('\n'),
    antrea: antreaShaped(await shapedNode(lab, side, pods)),
    normal: 'priority=0,actions=NORMAL',
  };
  for (const pipeline of pipelines) writeFileSync(join(folder, `${pipeline}.flows`), `${flows[pipeline]}\n`);
  return { ours: join(folder, 'ours.flows'), antrea: join(folder, 'antrea.flows'), normal: join(folder, 'normal.flows') };
}

async function shapedNode(lab: BenchLab, side: CniSide, pods: readonly BenchPod[]): Promise<Parameters<typeof antreaShaped>[0]> {
  const ofPort = async (name: string) => Number(await lab.exec('ovs-vsctl', 'get', 'Interface', name, 'ofport'));
  const ports: ShapedPort[] = [];
  for (const pod of pods) {
    const { ip, mac, hostInterface } = attachmentOf(side, pod);
    ports.push({ ip, mac, ofPort: await ofPort(hostInterface) });
  }
  const [first] = pods;
  const mac = (await lab.exec('ovs-vsctl', 'get', 'Interface', 'antrea-gw0', 'mac_in_use')).trim().replaceAll('"', '');
  const { gateway, network } = attachmentOf(side, first as BenchPod);
  return { gateway: { ip: gateway, mac, ofPort: await ofPort('antrea-gw0') }, podCidr: network, pods: ports };
}

/** Attachment in the plugin's answer to ADD. */
export function attachmentOf(side: CniSide, pod: BenchPod) {
  const answer = JSON.parse(readFileSync(side.answerFile(pod), 'utf8')) as {
    interfaces: readonly { name: string; mac: string; sandbox?: string }[];
    ips: readonly { address: string; gateway: string }[];
  };
  const inside = answer.interfaces.find(({ sandbox }) => sandbox);
  const outside = answer.interfaces.find(({ sandbox }) => !sandbox);
  const ipv4 = answer.ips.find(({ address }) => !address.includes(':'));
  if (!inside || !outside || !ipv4) throw new Error('an answer without an IPv4 address');
  const [ip = ''] = ipv4.address.split('/');
  return { ip, network: ipv4.address, gateway: ipv4.gateway, mac: inside.mac, hostInterface: outside.name };
}

export async function serverIn(netns: string, command: string, ...args: readonly string[]): Promise<ChildProcess> {
  const inside = inNetns(netns, command, args);
  const child = spawn(inside.command, inside.args, { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(child.stdout, 'data'); // both report that they listen
  child.stdout.resume();
  return child;
}

export async function throughput(netns: string, to: string): Promise<number> {
  const args = ['-c', to, '-p', String(port.iperf), '-t', String(tcpSeconds), '-O', '1', '-J'];
  let sum: { readonly bits_per_second: number } | undefined;
  await until(
    async () => {
      try {
        const { end } = JSON.parse(await runIn(netns, 'iperf3', args, {}, signal)) as { end: { sum_received?: typeof sum } };
        sum = end.sum_received; // absent if the host was too busy for a single second
        return sum !== undefined;
      } catch (thrown) {
        // Its server takes one client at a time, and needs a moment to close the last one.
        if (String(thrown).includes('busy')) return false;
        throw thrown;
      }
    },
    10_000,
    'iperf3',
  );
  return (sum?.bits_per_second ?? Number.NaN) / 1e9;
}

async function roundTripMicroseconds(netns: string, to: string): Promise<number> {
  return Number(await runIn(netns, compiled('round-trips'), ['ask', to, String(port.roundTrips), String(roundTrips)], {}, signal));
}
