#!/usr/bin/env node
/**
 * `npm run test:chaos`: injects faults into a running cluster and changes it by a seed, and compares its node with the state that a fresh
 * agent creates.
 */
import { parseArgs } from 'node:util';
import { ovsEnvironment } from '../../build/ovs/programs.mjs';
import { runScript, UsageError, wholeNumber } from '../support/script.ts';
import { buildControlPlane, withVersion } from './control-plane.ts';
import { type NodePaths, shippedAgent } from './lab.ts';
import { makeMutant } from './mutants.ts';
import { type PodInterfaces, podInterfaceKinds } from './pod-interfaces.ts';
import { Chaos, NotStarted, type RunOptions, type StepReport } from './run.ts';
import { shrink } from './shrink.ts';
import { addChunk, begin, sumOf } from './tally-file.ts';

const help = `npm run test:chaos -- [--seed N] [--steps N] [--from N] [--shrink N] [--agent FILE | --mutant NAME]
                       [--patience N] [--hertz N] [--changes N | --kind NAME,...] [--ovs VERSION] [--tally FILE]
                       [--kubernetes [VERSION]] [--datapath system] [--pod-interface half|standing|veth]
                       [--paths noEncap|wireguard]
       npm run test:chaos -- --sum FILE...

  --seed      seed of the steps (default: random, printed)
  --steps     number of steps (default 20)
  --from      number of the first step (default 0). A long run can be split into ranges of steps, each in a fresh lab
  --shrink    after a difference: number of fresh labs to use in search of a shorter list of steps that causes it (default 0)
  --agent     program of the tested agent (default dist/seine-agent.mjs, which the agents of reference nodes always run)
  --mutant    an agent with a planted fault that the run must find: one of mutants.ts, or drawn-N, chosen by the seed N. Exit code 1:
              found; 0: not found; 3: no such agent becomes ready, so there is no result
  --ovs       Open vSwitch of another Debian release, downloaded once (npm run test:ovs -- --help); default: the one in PATH
  --kubernetes
              use a real API server of this version with its controllers and scheduler, instead of the lab's; the newest if empty
              (versions: npm run build:kubernetes -- --help)
  --datapath  system (of the kernel, which needs the openvswitch module: npm run test:kernel -- --only chaos) or netdev (default)
  --pod-interface
              interface of the pods: veth, standing (pre-plugged ports), or half (default: half of the pods each)
  --paths     noEncap or wireguard: nodes do not use the tunnel, and half of the steps concern routes, keys, devices and tables of that
  --hertz     packets, new connections and messages per second on each traffic stream during faults (default 100; 0: no traffic)
  --changes   number of steps that may change the desired state; each needs a new reference node (default: no limit)
  --kind      only steps of these kinds, such as "pod.deleted" or "policy.created,policy.changed"; a new lab has nothing to change yet.
              Kinds that fire an alert ("alert.…") run only if they are named
  --patience  factor for the deadlines of docs/reliability.md, for a busy host (default 1)
  --tally     append a JSON line about this run to a file; not with a mutant
  --sum       add up such files: steps by seed, kind and state of the agent, and kinds that ran too rarely
`;

const options = {
  seed: { type: 'string' },
  steps: { type: 'string', default: '20' },
  from: { type: 'string', default: '0' },
  shrink: { type: 'string', default: '0' },
  agent: { type: 'string', default: shippedAgent },
  mutant: { type: 'string' },
  patience: { type: 'string', default: '1' },
  hertz: { type: 'string', default: '100' },
  changes: { type: 'string' },
  kind: { type: 'string' },
  ovs: { type: 'string' },
  tally: { type: 'string' },
  sum: { type: 'boolean', default: false },
  kubernetes: { type: 'string' },
  datapath: { type: 'string', default: 'netdev' },
  'pod-interface': { type: 'string', default: 'half' },
  paths: { type: 'string' },
  help: { type: 'boolean', default: false },
} as const;

/** Exit code of an invalid mutant: no agent became ready, so that nothing could be compared. */
const doesNotStart = 3;

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({ options, args: withVersion(process.argv.slice(2)), allowPositionals: true });
  if (values.help) return writeOut(help);
  if (values.sum) return writeOut(`${sumOf(positionals).join('\n')}\n`);
  if (positionals.length > 0) throw new UsageError(`${positionals.join(' ')}: only --sum takes files`);
  if (values.tally !== undefined && (values.mutant !== undefined || values.agent !== shippedAgent))
    throw new UsageError('--tally counts runs of the agent that ships, not of another');
  if (values.ovs !== undefined) Object.assign(process.env, await ovsEnvironment(values.ovs));
  const seed = values.seed === undefined ? Math.floor(Math.random() * 2 ** 31) : wholeNumber('seed', values.seed, 0);
  const from = wholeNumber('from', values.from, 0);
  const steps = Array.from({ length: wholeNumber('steps', values.steps) }, (_, index) => from + index);
  print(`seed ${seed}, steps ${from} to ${from + steps.length - 1}`);
  const patience = wholeNumber('patience', values.patience);
  const mutant = values.mutant === undefined ? undefined : makeMutant(values.mutant);
  if (mutant !== undefined) print(mutant.what);
  if (values.kubernetes !== undefined) await buildControlPlane(values.kubernetes);
  const more = {
    datapath: dataPath(values.datapath),
    podInterface: podInterfaces(values['pod-interface']),
    ...(values.paths !== undefined && { paths: nodePaths(values.paths) }),
    ...(values.kubernetes !== undefined && { controlPlane: values.kubernetes }),
    ...(values.changes !== undefined && { changesMost: wholeNumber('changes', values.changes, 0) }),
    ...(values.kind !== undefined && { kind: values.kind }),
  };
  try {
    return await chaosAndShrink(
      { seed, agent: mutant?.agent ?? values.agent, patience, hertz: wholeNumber('hertz', values.hertz, 0), ...more, steps, print },
      wholeNumber('shrink', values.shrink, 0),
      values.tally,
    );
  } catch (thrown) {
    if (mutant === undefined || !(thrown instanceof NotStarted)) throw thrown;
    print(`the mutant does not start, and is not caught: ${thrown.message.slice(0, 2_000)}`);
    return doesNotStart;
  } finally {
    mutant?.remove();
  }
}

/** @throws UsageError */
function dataPath(name: string): 'netdev' | 'system' {
  if (name === 'netdev' || name === 'system') return name;
  throw new UsageError(`--datapath ${name}: netdev or system is wanted`);
}

/** @throws UsageError */
function nodePaths(text: string): NodePaths {
  if (text === 'noEncap' || text === 'wireguard') return text;
  throw new UsageError(`--paths ${text}: noEncap or wireguard is wanted`);
}

/** @throws UsageError */
function podInterfaces(text: string): PodInterfaces {
  const found = podInterfaceKinds.find((kind) => kind === text);
  if (found === undefined) throw new UsageError(`--pod-interface ${text}: one of ${podInterfaceKinds.join(', ')}`);
  return found;
}

async function chaosAndShrink(setting: RunOptions, tries: number, tally?: string): Promise<number> {
  const done = await chaos(setting, printReport, tally);
  print(distribution(done));
  if (done.at(-1)?.problems.length === 0) return 0;
  const failing = done.map(({ number }) => number).filter((number) => number >= 0);
  if (tries === 0 || failing.length === 0) return 1;
  const silent = { ...setting, print: () => {} };
  const fails = async (some: readonly number[]): Promise<boolean> => {
    const differs = (await chaos({ ...silent, steps: some }, () => {})).at(-1)?.problems.length !== 0;
    print(`shrinking: ${some.join(',')} ${differs ? 'fail' : 'hold'}`);
    return differs;
  };
  print(`fails by these steps of seed ${setting.seed}: ${(await shrink(failing, fails, tries)).join(',')}`);
  return 1;
}

/** Executes the steps in a fresh lab, until one leaves a difference. @param tally file for the counts */
async function chaos(run: RunOptions, onReport: (report: StepReport) => void, tally?: string): Promise<readonly StepReport[]> {
  const lab = await Chaos.begin(run);
  const done: StepReport[] = [];
  let isWhole = false;
  try {
    const beginning = tally === undefined ? undefined : await begin(await lab.ground());
    try {
      for await (const report of lab.steps()) {
        onReport(report);
        done.push(report);
      }
      isWhole = true;
    } finally {
      if (tally !== undefined && beginning !== undefined) addChunk(tally, run, beginning, done, isWhole);
    }
  } finally {
    await lab.end();
  }
  return done;
}

/** Number of executions of each kind of step that changed something, and states of the agent meanwhile. */
function distribution(done: readonly StepReport[]): string {
  const counts = new Map<string, number>();
  const names = done
    .filter(({ number }) => number >= 0)
    .flatMap(({ changed, agent, deeds }) => [...changed, `agent ${agent}`, deeds.length > 1 ? 'pairs' : 'single']);
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts]
    .toSorted()
    .map(([name, count]) => `${name} ${count}`)
    .join(', ');
}

function printReport({ number, agent, deeds, problems, tookMs, alerts }: StepReport): void {
  print(`${number} agent ${agent}: ${deeds.join('; ')} (${Math.round(tookMs)} ms)${alerts.length === 0 ? '' : `; ${alerts.join(', ')}`}`);
  for (const problem of problems) print(`    ${problem}`);
}

function writeOut(text: string): number {
  process.stdout.write(text);
  return 0;
}

function print(line: string): void {
  process.stderr.write(`${line}\n`);
}

await runScript(main);
