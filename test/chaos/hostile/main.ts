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

  --seed      of what is written; a new one without it, which is printed
  --steps     how many; 20. Each writes one object, or has two of them exchange what they have
  --from      number of the first step; 0
  --shrink    after a failure, how many fresh labs to look with for a shorter list of steps that leads to it; 0
  --agent     what nodes run as the agent; dist/seine-agent.mjs
  --patience  how many times the deadlines: a second for /livez, for a change of another's Service and for the network of another's new pod; 1
  --faults    one step of eight harms a node as well, while what was written is there: its bridge loses its flows or groups, its switch, its
              agent or both are killed and started
  --go-on     after a failure as well, as long as all agents live
  --kind      write only these, with commas between them: services, endpointslices, networkpolicies, pods, nodes, change, exchange
  --pod-interface
              what pods get: veth pairs, macvlans over standing ports, or, without it, one half each

After each step every agent has answered /livez within a second, the victim's pods, old and new, its Services and policies work by packets, and
no packet to an address that is not the attackers' reaches them. How many steps took longer than a second is printed at the end. What was written last is printed and kept in .cache/hostile where one of these fails.
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
  say(`seed ${seed}, steps ${from} to ${from + steps.length - 1}`);
  const setting: HostileOptions = {
    seed,
    steps,
    agent: values.agent,
    podInterface,
    patience: wholeNumber('patience', values.patience),
    faults: values.faults,
    goesOn: values['go-on'],
    ...(values.kind !== undefined && { kinds: kindsIn(values.kind) }),
    say,
  };
  const done = await attack(setting, tell);
  say(sumOf(done));
  if (done.every(({ problems }) => problems.length === 0)) return 0;
  const failing = done.map(({ number }) => number).filter((number) => number >= 0);
  if (tries === 0 || failing.length === 0) return 1;
  const fails = async (some: readonly number[]): Promise<boolean> => {
    const isHarmed = (await attack({ ...setting, goesOn: false, steps: some, say: () => {} }, () => {})).at(-1)?.problems.length !== 0;
    say(`shrinking: ${some.join(',')} ${isHarmed ? 'harm' : 'do not harm'}`);
    return isHarmed;
  };
  say(`harmed by these steps of seed ${seed}: ${(await shrink(failing, fails, tries)).join(',')}`);
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

/** Executes the steps in a fresh lab, until one harms another user. */
async function attack(setting: HostileOptions, onReport: (report: HostileReport) => void): Promise<readonly HostileReport[]> {
  const cluster = await HostileCluster.begin(setting);
  const done: HostileReport[] = [];
  try {
    for await (const report of cluster.steps()) {
      onReport(report);
      done.push(report);
    }
    return done;
  } finally {
    await cluster.end();
  }
}

function sumOf(done: readonly HostileReport[]): string {
  const steps = done.filter(({ number }) => number >= 0);
  const accepted = steps.filter((step) => step.accepted).length;
  const harmed = steps.filter(({ problems }) => problems.length > 0).length;
  const times = (of: 'slowestLivezMs' | 'changeMs' | 'addMs'): string => {
    const all = steps.map((step) => step[of]);
    return `${Math.round(Math.max(0, ...all))} ms (${all.filter((ms) => ms > withinMs).length} above ${withinMs} ms)`;
  };
  const slowest = `/livez ${times('slowestLivezMs')}, a change of a Service ${times('changeMs')}, a new pod ${times('addMs')}`;
  return `${steps.length} steps, ${accepted} accepted, ${harmed} with harm; the slowest: ${slowest}`;
}

function tell({ number, what, problems, slowestLivezMs, changeMs, addMs }: HostileReport): void {
  say(`${number} ${what} (/livez ${Math.round(slowestLivezMs)} ms, a change ${changeMs} ms, a pod ${Math.round(addMs)} ms)`);
  for (const problem of problems) say(`    ${problem}`);
}

function say(line: string): void {
  process.stderr.write(`${line}\n`);
}

await runScript(main);
