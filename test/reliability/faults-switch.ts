import { setTimeout as sleep } from 'node:timers/promises';
import { askStatus } from '../../lab/up.ts';
import { until } from '../support/converge-lab.ts';
import { CrashRuntime } from '../support/crash-runtime.ts';
import { type Fault, type FaultContext, type FaultLimits, nothingLost } from './fault.ts';
import type { StreamKind } from './traffic.ts';

/** A userspace data path dies with its daemon, and with it conntrack; the recovery must be quick. */
const backSoon: FaultLimits = { connectsFailed: 0, firstBackMs: 300, allBackMs: 1_000 };
const frozenMs = 3_000;
const knownMs = 2_000;
/** Maximum time of an answer in an emulated host. */
const answerMs = 1_000;

type Daemon = Parameters<FaultContext['lab']['killOvs']>[1];

/** Kills and restarts; the time runs from the moment ovs-vswitchd accepts connections. */
async function killed({ lab, traffic }: FaultContext, daemon: Daemon) {
  await lab.killOvs(1, daemon);
  await lab.startOvs(1);
  const healedMs = performance.now();
  await backAgain(traffic, healedMs);
  const readyMs = await lab.untilReady(1, 120_000);
  return { healedMs, notes: [`ready within ${Math.round(performance.now() - healedMs)} ms`].filter(() => readyMs >= 0) };
}

async function killedWithoutAgent({ lab, traffic }: FaultContext, daemon: Daemon) {
  await lab.agent(1, 'kill');
  await lab.killOvs(1, daemon);
  await lab.startOvs(1);
  await lab.agent(1, 'start');
  const healedMs = performance.now();
  await backAgain(traffic, healedMs);
  await lab.untilReady(1, 120_000);
  return { healedMs, notes: ['measured from the start of the agent’s process'] };
}

/** Traffic that continues without ovs-vswitchd: on the kernel's data path, that of known flows. */
async function gone({ lab, traffic }: FaultContext) {
  // A flow is known once packets of both directions have passed after the first: only then can it continue.
  await backAgain(traffic, performance.now() + knownMs);
  await lab.killOvs(1, 'ovs-vswitchd');
  const goneMs = performance.now();
  await sleep(frozenMs);
  const backMs = performance.now();
  await lab.startOvs(1);
  const healedMs = performance.now();
  await backAgain(traffic, healedMs);
  await lab.untilReady(1, 120_000);
  // TCP retransmits lost packets: counted are those answered before OVS returned, of those that had the time.
  const meanwhile = (kind: StreamKind) => traffic.between(kind, goneMs, backMs - answerMs, backMs);
  const [datagrams, messages, connects] = [meanwhile('udp'), meanwhile('talk'), meanwhile('connect')];
  const said = [
    `of ${datagrams.sent} datagrams ${datagrams.lost} were lost`,
    `of ${messages.sent} messages on connections ${messages.lost} had to wait`,
    `of ${connects.sent} new connections ${connects.lost} had to wait`,
  ];
  const cachedLost = datagrams.lost + messages.lost;
  return { healedMs, cachedLost, notes: [`while it was gone, for ${frozenMs / 1_000} s: ${said.join(', ')}`] };
}

async function frozen({ lab, traffic }: FaultContext, which: 'vswitchdPid' | 'ovsdbPid') {
  const pid = (await askStatus(lab.plan.dir)).nodes[0]?.[which];
  if (typeof pid !== 'number') throw new Error(`there is no ${which}`);
  process.kill(pid, 'SIGSTOP');
  try {
    await sleep(frozenMs);
  } finally {
    process.kill(pid, 'SIGCONT');
  }
  const healedMs = performance.now();
  await backAgain(traffic, healedMs);
  await lab.untilReady(1, 120_000);
  return { healedMs, notes: [`for ${frozenMs / 1_000} s`] };
}

async function compacted({ lab, rounds }: FaultContext) {
  for (let round = 0; round < rounds; round++) await lab.exec(1, 'ovs-appctl', '-t', await databaseControl(lab), 'ovsdb-server/compact');
  return { notes: [`${rounds} times`] };
}

async function databaseControl(lab: FaultContext['lab']): Promise<string> {
  const { rundir, ovsdbPid } = (await askStatus(lab.plan.dir)).nodes[0] ?? {};
  return `${rundir}/ovsdb-server.${ovsdbPid}.ctl`;
}

/** A full table of the bridge: the new pod is rejected, and all others are served. */
async function tableFull({ lab, signal }: FaultContext) {
  const runtime = await CrashRuntime.start(lab, 2, signal);
  await runtime.add();
  const held = (await lab.flows(1)).filter(({ text }) => /table=4,/.test(text)).length;
  const limit = (...values: readonly string[]) => lab.exec(1, 'ovs-vsctl', ...values);
  const uuid = (await lab.exec(1, 'ovs-vsctl', 'get', 'Bridge', 'br-int', 'flow_tables:4')).trim();
  await limit('set', 'Flow_Table', uuid, `flow_limit=${held}`, 'overflow_policy=refuse');
  let refused = '';
  try {
    await runtime.add();
    refused = runtime.faults.splice(0).join('; ');
    if (refused === '') throw new Error('ADD succeeded although the table was full');
    await runtime.checkAll();
    if (runtime.faults.length > 0) throw new Error(`others were hurt: ${runtime.faults.join('; ')}`);
  } finally {
    await limit('clear', 'Flow_Table', uuid, 'flow_limit', 'overflow_policy');
  }
  await runtime.add();
  await runtime.close();
  if (runtime.faults.length > 0) throw new Error(runtime.faults.join('; '));
  return { notes: [`the pod was refused: “${refused.slice(0, 120)}…”; the next one, with room, was served`] };
}

async function backAgain(traffic: FaultContext['traffic'], momentMs: number): Promise<void> {
  await until(
    () => traffic.silentSince(momentMs).length === 0,
    60_000,
    () => `no answer on ${traffic.silentSince(momentMs).join(', ')}`,
  );
}

export const switchFaults: readonly Fault[] = [
  {
    name: 'vswitchd-kill',
    what: '`ovs-vswitchd` killed, agent alive',
    limits: backSoon,
    kernelLimits: { broken: 0 },
    everyTime: true,
    act: (context) => killed(context, 'ovs-vswitchd'),
  },
  {
    name: 'vswitchd-kill-without-agent',
    what: '`ovs-vswitchd` killed while the agent is dead',
    limits: { connectsFailed: 0 },
    kernelLimits: { broken: 0 },
    act: (context) => killedWithoutAgent(context, 'ovs-vswitchd'),
  },
  {
    name: 'vswitchd-gone',
    what: '`ovs-vswitchd` killed, and started seconds later',
    limits: {},
    kernelLimits: { cachedLost: 0, broken: 0 },
    act: gone,
  },
  {
    name: 'vswitchd-frozen',
    what: '`ovs-vswitchd` stopped by SIGSTOP, then continued',
    limits: { connectsFailed: 0, allBackMs: 1_000 },
    act: (context) => frozen(context, 'vswitchdPid'),
  },
  {
    name: 'ovsdb-kill',
    what: '`ovsdb-server` killed',
    // Without a database ovs-vswitchd's main thread, which is the userspace data path, stops until it is connected again.
    limits: { connectsFailed: 0, broken: 0 },
    act: (context) => killed(context, 'ovsdb-server'),
  },
  {
    name: 'ovsdb-frozen',
    what: '`ovsdb-server` stopped by SIGSTOP, then continued',
    limits: nothingLost,
    act: (context) => frozen(context, 'ovsdbPid'),
  },
  { name: 'ovsdb-compact', what: 'Database compacted', limits: nothingLost, act: compacted },
  { name: 'ovs-kill', what: 'Both daemons killed', limits: { connectsFailed: 0 }, act: (context) => killed(context, 'all') },
  {
    name: 'everything-kill',
    what: 'Both daemons and the agent killed',
    limits: { connectsFailed: 0 },
    act: (context) => killedWithoutAgent(context, 'all'),
  },
  { name: 'table-full', what: 'The bridge refuses one pod’s flows', limits: { connectsFailed: 0, broken: 0 }, act: tableFull },
];
