import { get } from 'node:http';
import { createInterface } from 'node:readline';
import { runIn } from '../../lab/machine/netns.ts';
import { readFlowLine } from '../../src/seinectl/flows/read-flows.ts';
import { BenchLab, until } from './bench-lab.ts';
import { openOurs } from './cni-rows.ts';
import type { CniSide } from './cni-side.ts';
import { compiled } from './compiled.ts';
import { addressOf, serverIn } from './connection-rows.ts';
import { readings, shareOf, turnFlowLog } from './flow-log-rows.ts';
import { throughput } from './pipeline-rows.ts';
import type { Measured } from './row.ts';

export const flowLogLoadRowNames = [
  'flows.throughput',
  'flows.follow.p95',
  'flows.flood.sent',
  'flows.flood.agent.cpu',
  'flows.flood.switch.cpu',
  'flows.flood.others',
] as const;

const port = 80;
const rounds = 5;
const floodSeconds = 10;
/** Connections of another pod during a flood. */
const others = 100;
const followed = 100;
const signal = new AbortController().signal;

/** Throughput with the flow log on and off, time from a packet to the line of a reader, and a flood of openings by one pod. */
export async function flowLogLoadRows(print: (text: string) => void): Promise<readonly Measured[]> {
  print('flow log: throughput, readers, and a flood of one pod');
  const lab = await BenchLab.start({ families: ['ipv4'] });
  const side = openOurs(lab);
  try {
    await lab.untilReady();
    side.prepare(lab, 3);
    await side.add(3, 1);
    return await measure(lab, side);
  } finally {
    await side.del(3, 1);
    await side.stop();
    await lab.remove();
  }
}

async function measure(lab: BenchLab, side: CniSide): Promise<readonly Measured[]> {
  const [server, client, flooder] = side.attached;
  if (!server || !client || !flooder) throw new Error('three pods are needed');
  const address = addressOf(side, server);
  const servers = [
    await serverIn(server.netns, 'iperf3', '-s', '-p', '5201', '--forceflush'),
    await serverIn(server.netns, compiled('connects'), 'serve', address, String(port)),
  ];
  const connectOnce = () => runIn(client.netns, compiled('connects'), ['once', address, String(port)], {}, signal);
  try {
    const rates: Record<'on' | 'off', number[]> = { on: [], off: [] };
    for (let round = 0; round < rounds; round++)
      for (const state of round % 2 === 0 ? (['off', 'on'] as const) : (['on', 'off'] as const)) {
        await turnFlowLog(lab, state);
        rates[state].push(await throughput(client.netns, address));
      }
    await turnFlowLog(lab, 'on');
    const follow = await followTimes(lab, connectOnce);
    const flood = await floodWith(lab, { from: flooder.netns, to: address, client: addressOf(side, client), connectOnce });
    return [
      { name: 'flows.throughput', unit: 'Gbit/s', ours: rates.on, peer: { name: 'without the flow log', values: rates.off } },
      { name: 'flows.follow.p95', unit: 'ms', ours: [follow] },
      ...flood,
    ];
  } finally {
    for (const each of servers) each.kill('SIGKILL');
  }
}

/** Returns the 95th percentile of the time from the start of a client to the line of its connection (ms). */
async function followTimes(lab: BenchLab, connectOnce: () => Promise<string>): Promise<number> {
  const times: number[] = [];
  const ending = new AbortController();
  const lines = linesOf(lab.paths.apiSocket, '/v1/flow-log?follow=true&event=opened', ending.signal);
  await lines.next(); // the state: from now on it follows
  for (let count = 0; count < followed; count++) {
    const startMs = performance.now();
    await connectOnce();
    for (;;) {
      const { value, done } = await lines.next();
      if (done) throw new Error('the agent ended the answer');
      if ('flow' in readFlowLine(value)) break;
    }
    times.push(performance.now() - startMs);
  }
  ending.abort();
  return times.toSorted((a, b) => a - b)[Math.ceil(followed * 0.95) - 1] ?? Number.NaN;
}

interface Flood {
  /** Network namespace of the pod that floods. */
  readonly from: string;
  readonly to: string;
  /** Address of another pod, which opens connections meanwhile. */
  readonly client: string;
  readonly connectOnce: () => Promise<string>;
}

async function floodWith(lab: BenchLab, { from, to, client, connectOnce }: Flood): Promise<readonly Measured[]> {
  const recorded = async () => (await flowsOf(lab, `from-ip=${client}&event=opened&last=65536`)).length;
  const had = await recorded();
  const before = await readings(lab);
  const flooding = runIn(from, compiled('floods'), [to, String(floodSeconds)], {}, signal);
  for (let count = 0; count < others; count++) await connectOnce();
  const sent = Number(await flooding);
  const { agent, vswitchd } = shareOf(before, await readings(lab));
  let complete = 0;
  await until(async () => (complete = (await recorded()) - had) >= others, 10_000, 'records of the other pod').catch(() => undefined);
  return [
    { name: 'flows.flood.sent', unit: 'datagrams/s', ours: [sent] },
    { name: 'flows.flood.agent.cpu', unit: '% of a CPU', ours: [agent * 100] },
    { name: 'flows.flood.switch.cpu', unit: '% of a CPU', ours: [vswitchd * 100] },
    { name: 'flows.flood.others', unit: 'records of 100', ours: [complete] },
  ];
}

async function flowsOf(lab: BenchLab, query: string) {
  const flows = [];
  for await (const text of linesOf(lab.paths.apiSocket, `/v1/flow-log?${query}`, signal)) {
    const line = readFlowLine(text);
    if ('flow' in line) flows.push(line.flow);
  }
  return flows;
}

async function* linesOf(socketPath: string, path: string, until: AbortSignal): AsyncGenerator<string> {
  const response = await new Promise<import('node:http').IncomingMessage>((resolve, reject) => {
    get({ socketPath, path, agent: false, signal: until }, resolve).once('error', reject);
  });
  response.once('error', () => undefined); // the reader has ended it
  for await (const line of createInterface({ input: response })) if (line !== '') yield line;
}
