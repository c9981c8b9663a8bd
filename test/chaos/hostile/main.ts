#!/usr/bin/env node
/** `npm run test:hostile`: valid objects of users with few rights, meant to harm others, in a running cluster. */
import { parseArgs } from 'node:util';
import { runScript, UsageError, wholeNumber } from '../../support/script.ts';
import { shippedAgent } from '../lab.ts';
import { podInterfaceKinds } from '../pod-interfaces.ts';
import { shrink } from '../shrink.ts';
import { type WriteKind, writeKinds } from './draw-write.ts';
import { HostileCluster, type HostileOptions, type HostileReport, withinMs } from './run.ts';

const help = `npm run test:hostile -- [--seed N] [--steps N] [--from N] [--shrink N] [--agent FILE] [--patience N] [--pod-interface half|standing|veth]
                       [--faults] [--go-on] [--kind NAME,...]

  --seed      seed of the objects (default: random, printed)
  --steps     number of steps (default 20). Each writes one object, or swaps the contents of two
  --from      number of the first step (default 0)
  --shrink    after a failure: number of fresh labs to use in search of a shorter list of steps that causes it (default 0)
  --agent     program of the nodes' agents (default dist/seine-agent.mjs)
  --patience  factor for the deadlines, which are one second each: /livez, a change of the victim's Service, network of a new pod (default 1)
  --faults    every eighth step also injects a fault into a node while the objects exist: its bridge loses flows or groups, or its OVS,
              its agent or both are killed and restarted
  --go-on     continue after a failure while all agents are alive
  --kind      write only these kinds, separated by commas: services, endpointslices, networkpolicies, pods, nodes, change, exchange
  --pod-interface
              interface of the pods: veth, standing (pre-plugged ports), or half (default: half of the pods each)

After each step every agent must have answered /livez within a second, packets must show that the victim's pods, Services and policies work,
and no packet to a foreign address may reach the attackers. The number of steps that took longer than a second is printed at the end. On a failure the objects written last are printed and kept in .cache/hostile.
`;

const options = {
  seed: { type: 'string' },
  steps: { type: 'string', default: '20' },
  from: { type: 'string', default: '0' },
  shrink: { type: 'string', default: '0' },
  agent: { type: 'string', default: shippedAgent },
  patience: { type: 'string', default: '1' },
  'pod-interface': { type: 'string', default: 'half' },
  kind: { type: 'string' },
  faults: { type: 'boolean', default: false },
  'go-on': { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const;

async function main(): Promise<number> {
  const { values } = parseArgs({ options });
  if (values.help) {
    process.stdout.write(help);
    return 0;
  }
  const podInterface = podInterfaceKinds.find((kind) => kind === values['pod-interface']);
  if (podInterface === undefined) throw new UsageError(`--pod-interface: one of ${podInterfaceKinds.join(', ')} is wanted`);
  const seed = values.seed === undefined ? Math.floor(Math.random() * 2 ** 31) : wholeNumber('seed', values.seed, 0);
  const from = wholeNumber('from', values.from, 0);
  const steps = Array.from({ length: wholeNumber('steps', values.steps) }, (_, index) => from + index);
  const tries = wholeNumber('shrink', values.shrink, 0);
  print(`seed ${seed}, steps ${from} to ${from + steps.length - 1}`);
  const setting: HostileOptions = {
    seed,
    steps,
    agent: values.agent,
    podInterface,
    patience: wholeNumber('patience', values.patience),
    faults: values.faults,
    goesOn: values['go-on'],
    ...(values.kind !== undefined && { kinds: kindsIn(values.kind) }),
    print,
  };
  const done = await attack(setting, printReport);
  print(sumOf(done));
  if (interrupted.aborted) return interruptedCode;
  if (done.every(({ problems }) => problems.length === 0)) return 0;
  const failing = done.map(({ number }) => number).filter((number) => number >= 0);
  if (tries === 0 || failing.length === 0) return 1;
  const fails = async (some: readonly number[]): Promise<boolean> => {
    const stillFails = (await attack({ ...setting, goesOn: false, steps: some, print: () => {} }, () => {})).at(-1)?.problems.length !== 0;
    print(`shrinking: ${some.join(',')} ${stillFails ? 'fail' : 'pass'}`);
    return stillFails;
  };
  print(`shortest failing list of steps of seed ${seed}: ${(await shrink(failing, fails, tries)).join(',')}`);
  return 1;
}

/** @throws UsageError */
function kindsIn(text: string): readonly WriteKind[] {
  return text.split(',').map((name) => {
    const found = writeKinds.find((kind) => kind === name);
    if (found === undefined) throw new UsageError(`--kind ${name}: one of ${[...new Set(writeKinds)].join(', ')} is wanted`);
    return found;
  });
}

/** Exit code of a program that SIGINT ends. */
const interruptedCode = 130;
const stop = new AbortController();
/** Aborted by SIGINT and SIGTERM: the step that runs is the last, and the lab is removed. */
const interrupted = stop.signal;
for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => stop.abort());

/** Executes the steps in a fresh lab, until one harms another user. */
async function attack(setting: HostileOptions, onReport: (report: HostileReport) => void): Promise<readonly HostileReport[]> {
  const cluster = await HostileCluster.begin(setting);
  const done: HostileReport[] = [];
  try {
    for await (const report of cluster.steps()) {
      onReport(report);
      done.push(report);
      if (interrupted.aborted) break;
    }
    return done;
  } finally {
    await cluster.end();
  }
}

function sumOf(done: readonly HostileReport[]): string {
  const steps = done.filter(({ number }) => number >= 0);
  const accepted = steps.filter((step) => step.accepted).length;
  const failedSteps = steps.filter(({ problems }) => problems.length > 0).length;
  const times = (of: 'slowestLivezMs' | 'changeMs' | 'addMs'): string => {
    const all = steps.map((step) => step[of]);
    return `${Math.round(Math.max(0, ...all))} ms (${all.filter((ms) => ms > withinMs).length} above ${withinMs} ms)`;
  };
  const slowest = `/livez ${times('slowestLivezMs')}, a change of a Service ${times('changeMs')}, a new pod ${times('addMs')}`;
  return `${steps.length} steps, ${accepted} accepted, ${failedSteps} with harm; the slowest: ${slowest}`;
}

function printReport({ number, what, problems, slowestLivezMs, changeMs, addMs }: HostileReport): void {
  print(`${number} ${what} (/livez ${Math.round(slowestLivezMs)} ms, a change ${changeMs} ms, a pod ${Math.round(addMs)} ms)`);
  for (const problem of problems) print(`    ${problem}`);
}

function print(line: string): void {
  process.stderr.write(`${line}\n`);
}

await runScript(main);
