import { readFileSync } from 'node:fs';
import { setLive } from '../../lab/demo/live-settings.ts';
import { runIn } from '../../lab/machine/netns.ts';
import { agentProcess } from '../../lab/node/agent.ts';
import { ovsProcess } from '../../lab/node/ovs.ts';
import { priority } from '../../src/dataplane/pipeline/flow.ts';
import { BenchLab, until } from './bench-lab.ts';
import { openOurs } from './cni-rows.ts';
import { compiled } from './compiled.ts';
import { addressOf, serverIn } from './connection-rows.ts';
import { type Measured, median } from './row.ts';

export const flowLogRowNames = [
  ...['flows.connrate', 'flows.connection.cpu', 'flows.agent.cpu', 'flows.switch.cpu'],
  ...['flows.sampled.connrate', 'flows.sampled.connection.cpu', 'flows.sampled.agent.cpu', 'flows.sampled.switch.cpu'],
  'flows.rss',
];

const port = 80;
/** Pods that open connections: each has its own rate of 200 records a second. */
const clients = 8;
/** Each has two measurements of every state; the first warms up. */
const rounds = 4;
const seconds = 3;
/** Value of `flowLog.sampling` of the rows `flows.sampled`. */
const sampling = 8;

export type LogState = 'off' | 'on' | 'sampled';
const states: readonly LogState[] = ['off', 'on', 'sampled', 'sampled', 'on', 'off'];
/** Maximum time until packets of established connections are not copied any more (ms): they are for a minute (`seen`). */
const SEEN_WITHIN_MS = 120_000;
/** Clock ticks a second of /proc/PID/stat (proc(5)). */
const ticksPerSecond = 100;
const signal = new AbortController().signal;

interface Round {
  /** Connections per second of all clients. */
  readonly rate: number;
  /** Recorded openings per second. */
  readonly recorded: number;
  /** Share of a CPU of the agent and of ovs-vswitchd. */
  readonly agent: number;
  readonly vswitchd: number;
  /** Share of a CPU of the clients, which end with the round. */
  readonly children: number;
}

/** Cost of the flow log: connections of eight pods to one, with the log off, on, and recording one of eight in turn. */
export async function flowLogRows(print: (text: string) => void): Promise<readonly Measured[]> {
  print('connections of eight pods, with the flow log and without');
  const lab = await BenchLab.start({ families: ['ipv4'] });
  try {
    await lab.untilReady();
    return await inTurn(lab);
  } finally {
    await lab.remove();
  }
}

async function inTurn(lab: BenchLab): Promise<readonly Measured[]> {
  const side = openOurs(lab);
  side.prepare(lab, clients + 1);
  await side.add(clients + 1, 1);
  const [server, ...askers] = side.attached;
  if (!server) throw new Error('no pod');
  const address = addressOf(side, server);
  const answering = await serverIn(server.netns, compiled('connects'), 'serve', address, String(port));
  const taken: Record<LogState, Round[]> = { on: [], off: [], sampled: [] };
  const memory: Record<'on' | 'off', number[]> = { on: [], off: [] };
  try {
    for (let round = 0; round < rounds; round++)
      for (const state of states) {
        await turnFlowLog(lab, state);
        if (state !== 'off') await until(async () => !(await isSeeing(lab)), SEEN_WITHIN_MS, 'the end of the first minute of the log');
        const measured = await connect(lab, askers, address);
        if (round > 0) taken[state].push(measured); // the first round warms up
        // Without the log: before it is first turned on, for memory is not returned.
        if (state === 'on' && round > 0) memory.on.push(lab.residentMemory());
        if (state === 'off' && memory.off.length === 0) memory.off.push(lab.residentMemory());
      }
  } finally {
    answering.kill('SIGKILL');
    await side.del(clients + 1, 1);
    await side.stop();
  }
  return rowsOf(taken, memory);
}

function rowsOf(
  { on, off, sampled }: Record<LogState, readonly Round[]>,
  memory: Record<'on' | 'off', readonly number[]>,
): readonly Measured[] {
  const peer = (values: readonly number[]) => ({ name: 'without the flow log', values });
  // Per 1,000 connections per second that are recorded, or of which one of eight is, beyond what the agent takes without the log.
  const idle = median(off.map(({ agent }) => agent));
  const cost = (values: readonly Round[], of = 1) => values.map(({ agent, recorded }) => ((agent - idle) * 100_000) / (recorded * of));
  const rates = (values: readonly Round[]) => values.map(({ rate }) => rate);
  const each = (values: readonly Round[]) => values.map(({ vswitchd, rate }) => (vswitchd * 1e6) / rate);
  const whole = (values: readonly Round[]) =>
    values.map(({ agent, vswitchd, children, rate }) => ((agent + vswitchd + children) * 1e6) / rate);
  return [
    { name: 'flows.connrate', unit: 'connections/s', ours: rates(on), peer: peer(rates(off)) },
    // Of all that share the CPUs but the server: where these are busy, the rate is in inverse proportion, whatever else runs on the host.
    { name: 'flows.connection.cpu', unit: 'µs/connection', ours: whole(on), peer: peer(whole(off)) },
    { name: 'flows.agent.cpu', unit: '% of a CPU at 1,000/s', ours: cost(on) },
    { name: 'flows.switch.cpu', unit: 'µs/connection', ours: each(on), peer: peer(each(off)) },
    { name: 'flows.sampled.connrate', unit: 'connections/s', ours: rates(sampled), peer: peer(rates(off)) },
    { name: 'flows.sampled.connection.cpu', unit: 'µs/connection', ours: whole(sampled), peer: peer(whole(off)) },
    { name: 'flows.sampled.agent.cpu', unit: '% of a CPU at 1,000/s', ours: cost(sampled, sampling) },
    { name: 'flows.sampled.switch.cpu', unit: 'µs/connection', ours: each(sampled), peer: peer(each(off)) },
    { name: 'flows.rss', unit: 'MiB', ours: memory.on, peer: peer(memory.off) },
  ];
}

export async function turnFlowLog(lab: BenchLab, state: LogState): Promise<void> {
  const isOn = state !== 'off';
  const settings = { 'flowLog.enabled': isOn ? 'true' : null, 'flowLog.sampling': state === 'sampled' ? String(sampling) : null };
  await setLive(lab.api, settings, signal);
  await until(
    async () => {
      const [copying, choosing] = await flowsOnBridge(lab);
      return (await lab.metric('flow_log_enabled')) === (isOn ? 1 : 0) && copying === isOn && choosing === (state === 'sampled');
    },
    10_000,
    `the flow log to be ${state}`,
  );
}

/** Reports whether packets of established connections are copied. */
async function isSeeing(lab: BenchLab): Promise<boolean> {
  return (await lab.exec('ovs-ofctl', '-O', 'OpenFlow15', 'dump-flows', 'br-int', 'table=100')).includes('userdata=0f');
}

/** Reports whether flows copy openings, and whether they choose them by their source ports. */
async function flowsOnBridge(lab: BenchLab): Promise<readonly [copying: boolean, choosing: boolean]> {
  const dump = await lab.exec('ovs-ofctl', '-O', 'OpenFlow15', 'dump-flows', 'br-int', 'table=100');
  // ovs-ofctl does not print the source port of a connection: the flows for those that are not chosen have a priority of their own.
  return [dump.includes('userdata=0c'), dump.includes(`priority=${priority.overNormal},`)];
}

async function connect(lab: BenchLab, askers: readonly { readonly netns: string }[], address: string): Promise<Round> {
  const before = await readings(lab);
  const rates = await Promise.all(
    askers.map(async ({ netns }) =>
      Number((await runIn(netns, compiled('connects'), ['ask', address, String(port), String(seconds), '1'], {}, signal)).split(' ')[0]),
    ),
  );
  const after = await readings(lab);
  const rate = rates.reduce((sum, each) => sum + each, 0);
  return { rate, ...shareOf(before, after) };
}

/** Rates and shares of a CPU between two readings. */
export function shareOf(before: Readings, after: Readings): Omit<Round, 'rate'> {
  const elapsed = (after.atMs - before.atMs) / 1_000;
  const share = (of: 'agent' | 'vswitchd' | 'children'): number => (after[of] - before[of]) / ticksPerSecond / elapsed;
  return {
    recorded: (after.recorded - before.recorded) / elapsed,
    agent: share('agent'),
    vswitchd: share('vswitchd'),
    children: share('children'),
  };
}

type Readings = Awaited<ReturnType<typeof readings>>;

export async function readings(lab: BenchLab) {
  const recorded = await lab.metric('flows_total', { event: 'opened' });
  const pids = [agentProcess(lab.plan, lab.node)?.pid, ovsProcess(lab.paths.dir, 'ovs-vswitchd')?.pid];
  const [agent = 0, vswitchd = 0] = pids.map(ticksOf);
  return { recorded, agent, vswitchd, children: childTicks(), atMs: performance.now() };
}

/** User and system time of children that have ended. Source: proc(5), /proc/PID/stat fields 16 and 17. */
function childTicks(): number {
  const fields = readFileSync('/proc/self/stat', 'utf8').split(') ')[1]?.split(' ') ?? [];
  return Number(fields[13]) + Number(fields[14]);
}

/** User and system time of a process. Source: proc(5), /proc/PID/stat fields 14 and 15. */
function ticksOf(pid: number | undefined): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return Number(fields[11]) + Number(fields[12]);
}
