import { setTimeout as sleep } from 'node:timers/promises';
import { askStatus } from '../../lab/up.ts';
import { type ConvergeLab, until } from '../support/converge-lab.ts';
import { CrashRuntime } from '../support/crash-runtime.ts';
import { type Fault, type FaultContext, nothingLost, nothingLostOnTheNode } from './fault.ts';

const quietMs = 10_000;
const stoppedMs = 10_000;
const killWithinMs = 500;
/** Time without the API server per round: three of them are a minute, 180 an hour. */
const apiAwayMs = 20_000;
const betweenPodsMs = 500;
/** Limits on the agent's log lines and memory: it logs a repeated failure at growing intervals, up to minutes. */
const awayLimits = { lines: 60, linesPerMinute: 1, mib: 24 } as const;

/** Messages of the agent to OVS and its database since its start. */
async function sent(lab: ConvergeLab): Promise<{ readonly flowOps: number; readonly transactions: number }> {
  const metrics = await lab.metrics(1);
  const flowOps = [...metrics].filter(([name]) => name.startsWith('ovs_flow_ops_count')).reduce((sum, [, count]) => sum + count, 0);
  return { flowOps, transactions: metrics.get('ovsdb_transactions_total') ?? 0 };
}

async function steady({ lab, rounds }: FaultContext) {
  const before = { ...(await sent(lab)), database: lab.databaseSize(1) };
  await sleep(quietMs * rounds);
  const after = { ...(await sent(lab)), database: lab.databaseSize(1) };
  const wrote = [
    `${after.flowOps - before.flowOps} flow-mods`,
    `${after.transactions - before.transactions} transactions`,
    `${after.database - before.database} bytes in the database`,
  ].join(', ');
  if (wrote !== '0 flow-mods, 0 transactions, 0 bytes in the database') throw new Error(`a quiet node wrote: ${wrote}`);
  return { notes: [`${(quietMs * rounds) / 1_000} s: ${wrote}`] };
}

async function restarts({ lab, rounds, random, print }: FaultContext, verb: 'stop' | 'kill') {
  const ready: number[] = [];
  for (let round = 1; round <= rounds; round++) {
    await sleep(random() * killWithinMs);
    await lab.agent(1, verb);
    await lab.agent(1, 'start');
    // Every third one is killed again immediately, during its start.
    if (verb === 'stop' || round % 3 !== 0) ready.push(await lab.untilReady(1));
    if (round % 50 === 0) print(`${round} of ${rounds}`);
  }
  ready.push(await lab.untilReady(1));
  const { flowOps } = await sent(lab);
  if (flowOps !== 0) throw new Error(`the last agent sent ${flowOps} flow-mods although nothing had changed`);
  return { notes: [`${rounds} times; ready after ${median(ready)} ms (median); 0 flow-mods`] };
}

async function frozen({ lab }: FaultContext) {
  const { agentPid } = (await askStatus(lab.plan.dir)).nodes[0] ?? {};
  if (typeof agentPid !== 'number') throw new Error('no agent runs');
  process.kill(agentPid, 'SIGSTOP');
  try {
    await sleep(stoppedMs);
  } finally {
    process.kill(agentPid, 'SIGCONT');
  }
  const readyMs = await lab.untilReady(1);
  return { notes: [`for ${stoppedMs / 1_000} s; ready ${readyMs} ms after it went on`] };
}

/**
 * Pods are created and deleted without the API server, from the runtime's data alone; STATUS never changes, and neither memory nor log of
 * the agent grows.
 */
async function withoutApi({ lab, rounds, signal }: FaultContext) {
  const runtime = await CrashRuntime.start(lab, 3, signal);
  const memory = async () => ((await lab.metrics(1)).get('process_resident_memory_bytes') ?? 0) / 2 ** 20;
  await lab.apiServer('stop');
  let [logged, gained] = [0, 0];
  try {
    const [startedMs, lines, mib] = [performance.now(), lab.log(1).length, await memory()];
    while (performance.now() - startedMs < apiAwayMs * rounds) {
      for (let each = 0; each < 3; each++) await runtime.add();
      await Promise.all([runtime.checkAll(), runtime.status()]);
      for (const id of [...runtime.live.keys()]) await runtime.remove(id);
      await sleep(betweenPodsMs);
    }
    [logged, gained] = [lab.log(1).length - lines, Math.round((await memory()) - mib)];
    await lab.agent(1, 'kill');
    await lab.agent(1, 'start');
    await lab.untilReady(1);
    await runtime.add();
  } finally {
    await runtime.close();
    await lab.apiServer('start');
  }
  const seconds = (apiAwayMs * rounds) / 1_000;
  const { added, addFailed } = runtime.counts;
  await until(
    async () => (await lab.readiness(1)).ready,
    30_000,
    () => 'the agent is not ready after the API server came back',
  );
  const seen = `for ${seconds} s: ${added} ADDs, ${addFailed} failed, STATUS always good; ${logged} lines logged, ${gained} MiB more`;
  const linesMost = awayLimits.lines + awayLimits.linesPerMinute * (seconds / 60);
  if (runtime.faults.length > 0) throw new Error(`${runtime.faults.join('; ')} (${seen})`);
  if (logged > linesMost || gained > awayLimits.mib) throw new Error(`more was logged or kept than expected: ${seen}`);
  return { notes: [`${seen}; the agent restarted meanwhile was ready`] };
}

function median(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? 0;
}

export const agentFaults: readonly Fault[] = [
  { name: 'steady', what: 'Nothing happens', limits: nothingLost, act: steady },
  { name: 'agent-term', what: 'Agent restarted by SIGTERM', limits: nothingLost, act: (context) => restarts(context, 'stop') },
  {
    name: 'agent-kill',
    what: 'Agent killed at random moments, also while it starts',
    limits: nothingLost,
    act: (context) => restarts(context, 'kill'),
  },
  { name: 'agent-frozen', what: 'Agent stopped by SIGSTOP, then continued', limits: nothingLost, act: frozen },
  { name: 'api-away', what: 'API server away; pods come and go, the agent is killed', limits: nothingLostOnTheNode, act: withoutApi },
];
