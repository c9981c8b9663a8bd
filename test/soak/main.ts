#!/usr/bin/env node
/** `npm run test:soak`: a hundred thousand random calls, changes of Services, faults and kills on one real node. */
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { ConvergeLab } from '../support/converge-lab.ts';
import { CrashRuntime } from '../support/crash-runtime.ts';
import { generator } from '../support/random.ts';
import { runScript, wholeNumber } from '../support/script.ts';
import { Soak } from './soak.ts';

const help = `npm run test:soak -- [--steps N | --minutes N] [--seed N] [--containers N] [--agent FILE] [--json]

  --steps       number of random steps: ADD, DEL, CHECK, lost containers, changed Services, kills (default 100000)
  --minutes     run as many steps as fit into this time, instead
  --seed        seed of an earlier run, to repeat it (default: random, printed)
  --containers  maximum number of containers at a time (default 32)
  --agent       program of the agent (default dist/seine-agent.mjs)
  --json        print the results as JSON in the last line

Agent, plugin, Open vSwitch (userspace data path without its exact match cache), namespaces, interfaces, journal and the lab's API server are
real. The lab's runtime calls the plugin as libcni does. Daemons and agent are killed in the first quarter only; afterwards the growth of
their memory is measured, each time after half a minute without requests. At the end the node must have the same state as at the start.
`;

const stepsUsual = '100000';
const options = {
  steps: { type: 'string' },
  minutes: { type: 'string' },
  seed: { type: 'string' },
  containers: { type: 'string', default: '32' },
  agent: { type: 'string', default: join(import.meta.dirname, '..', '..', 'dist', 'seine-agent.mjs') },
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const;

async function main(): Promise<number> {
  const { values } = parseArgs({ options });
  if (values.help) {
    process.stdout.write(help);
    return 0;
  }
  const minutes = values.minutes === undefined ? Infinity : wholeNumber('minutes', values.minutes);
  const steps = values.steps === undefined && values.minutes !== undefined ? Infinity : wholeNumber('steps', values.steps ?? stepsUsual);
  const containers = wholeNumber('containers', values.containers);
  const seed = values.seed === undefined ? Math.floor(Math.random() * 2 ** 31) : wholeNumber('seed', values.seed);
  const print = (line: string): void => void process.stderr.write(`${line}\n`);
  print(
    `${values.steps ?? (values.minutes === undefined ? stepsUsual : `${minutes} minutes of`)} steps, ${containers} containers, seed ${seed}`,
  );
  const startedMs = performance.now();
  const lab = await ConvergeLab.start(1, values.agent);
  try {
    const runtime = await CrashRuntime.start(lab, containers, new AbortController().signal);
    const outcome = await new Soak({ lab, runtime, agent: values.agent, steps, minutes, random: generator(seed), print }).run();
    print(JSON.stringify({ ...runtime.counts, services: outcome.services, faults: outcome.faults }));
    for (const [what, { perHour, within, blocks }] of Object.entries(outcome.slopes))
      print(`memory of ${what}: ${perHour.toFixed(2)} ± ${within.toFixed(2)} MiB an hour (95 %, ${blocks} means)`);
    for (const problem of outcome.problems) print(`! ${problem}`);
    const took = ((performance.now() - startedMs) / 60_000).toFixed(1);
    print(
      `${outcome.problems.length === 0 ? 'held' : 'FAILED'}: ${outcome.steps} steps, ${outcome.agentKills} kills of the agent, ${took} minutes`,
    );
    if (values.json) process.stdout.write(`${JSON.stringify({ seed, ...outcome })}\n`);
    return outcome.problems.length === 0 ? 0 : 1;
  } finally {
    await lab.remove();
  }
}

await runScript(main);
