import { readFileSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { parse, stringify } from 'yaml';
import { agentProgram } from '../../lab/machine/installation.ts';
import { transportInterface } from '../../lab/node/topology.ts';
import { nodePaths } from '../../lab/plan/names.ts';
import type { TrafficMode } from '../../lab/plan/plan.ts';
import { type Family, parseIp } from '../../src/base/net/ip.ts';
import { ConvergeLab, until } from '../support/converge-lab.ts';
import { builtRelease, releaseOf } from '../support/releases.ts';
import { echo, type StreamCount, UdpStream } from '../support/udp-stream.ts';
import { setUrgency, urgent } from '../support/urgency.ts';
import { replaceAgentOf } from './replaced-agent.ts';

const families = ['ipv4', 'ipv6'] as const;
const port = 7_100;
const patienceMs = 60_000;
/** The userspace data path of a busy host loses packets now and then; a change that loses packets always does. */
const triesMax = 4;
const bridge = 'antrea-gw0';

let lab: ConvergeLab;
let link: string;
let previous: string;
let putBack: (() => void) | undefined;
const ends: (() => void)[] = [];

beforeAll(async () => {
  previous = (await builtRelease(releaseOf(process.env['SEINE_TEST_RELEASE']))).agent;
  lab = await ConvergeLab.start(2, previous);
  await lab.startPods();
  link = transportInterface(lab.plan);
  for (const family of families) ends.push(await echo(lab.pod('web-2').netns, ipOf('web-2', family), port));
  await lab.untilReached(lab.pod('client-1'), lab.pod('web-2'));
  await lab.untilReached(lab.pod('client-2'), lab.pod('web-1'));
  putBack = setUrgency(process.pid, urgent);
  for (const pid of await lab.switchPids()) setUrgency(pid, urgent);
}, 180_000);
afterAll(async () => {
  putBack?.();
  for (const end of ends) end();
  await lab?.remove();
});

const ipOf = (pod: string, family: Family): string => lab.pod(pod).ips.find((ip) => parseIp(ip).family === family) ?? '';

/** Waits until a node sends to the pods of the other through an interface. */
async function untilSent(from: 1 | 2, device: string): Promise<void> {
  for (const family of families) {
    const words = [family === 'ipv6' ? '-6' : '-4', 'route', 'get', ipOf(`web-${3 - from}`, family)];
    await until(
      async () => (await lab.exec(from, 'ip', ...words)).includes(`dev ${device} `),
      patienceMs,
      () => `node ${from} does not send by ${device} (${family})`,
    );
  }
}

/** Starts the agent of a release with a traffic mode. */
async function run(number: 1 | 2, program: string, mode: TrafficMode): Promise<void> {
  const { agentConfig } = nodePaths(lab.plan.dir, lab.node(number).name);
  const config = parse(readFileSync(agentConfig, 'utf8')) as object;
  writeFileSync(agentConfig, stringify({ ...config, trafficEncapMode: mode }));
  await replaceAgentOf(lab, number, program);
}

/** Order of an upgrade and of the way back in `docs/traffic-modes.md`: `encap` on all nodes before the first older agent. */
const steps: readonly { readonly what: string; readonly work: () => Promise<void> }[] = [
  { what: 'node 1 is upgraded', work: () => run(1, agentProgram(), 'encap') },
  { what: 'node 1 uses hybrid beside the previous release', work: () => run(1, agentProgram(), 'hybrid') },
  { what: 'node 2 is upgraded', work: () => run(2, agentProgram(), 'encap') },
  {
    what: 'node 2 uses hybrid',
    work: async () => {
      await run(2, agentProgram(), 'hybrid');
      await untilSent(1, link);
      await untilSent(2, link);
    },
  },
  {
    what: 'node 1 returns to encap',
    work: async () => {
      await run(1, agentProgram(), 'encap');
      await untilSent(1, bridge);
      await untilSent(2, bridge);
    },
  },
  { what: 'node 2 returns to encap', work: () => run(2, agentProgram(), 'encap') },
  { what: 'node 1 returns to the previous release', work: () => run(1, previous, 'encap') },
  { what: 'node 2 returns to the previous release', work: () => run(2, previous, 'encap') },
];

/** Runs a step while a pod of node 1 exchanges packets with one of node 2. */
async function during(work: () => Promise<void>): Promise<readonly StreamCount[]> {
  const client = lab.pod('client-1').netns;
  const streams = await Promise.all(families.map((family) => UdpStream.start(client, ipOf('web-2', family), port)));
  const continued = async (): Promise<void> => {
    const before = streams.map(({ answered }) => answered);
    await until(
      () => streams.every(({ answered }, at) => answered > (before[at] ?? 0) + 100),
      patienceMs,
      () => 'packets of a stream do not come back',
    );
  };
  let counts: readonly StreamCount[] = [];
  try {
    await continued();
    await work();
    await continued();
  } finally {
    counts = await Promise.all(streams.map((stream) => stream.stop()));
  }
  return counts;
}

it('changes to hybrid and back between releases without packet loss', { timeout: 900_000 }, async () => {
  const pending = new Set(steps.map(({ what }) => what));
  for (let tries = 1; pending.size > 0; tries++)
    for (const { what, work } of steps) {
      const counts = await during(work);
      const lost = counts.map(({ lost }) => lost);
      console.log(`${what}: lost ${lost.join(' and ')} of ${counts.map(({ sent }) => sent).join(' and ')}`);
      if (lost.every((count) => count === 0)) pending.delete(what);
      else if (tries === triesMax && pending.has(what)) expect({ what, lost }).toEqual({ what, lost: [0, 0] });
    }
});
