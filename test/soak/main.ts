#!/usr/bin/env node
/** `npm run test:soak`: a hundred thousand random calls and kills on one real node. */
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { ConvergeLab } from '../support/converge-lab.ts';
import { CrashRuntime } from '../support/crash-runtime.ts';
import { generator } from '../support/random.ts';
import { runScript, wholeNumber } from '../support/script.ts';
import { Soak } from './soak.ts';

const help = `npm run test:soak -- [--steps N] [--seed N] [--containers N] [--agent FILE] [--json]

  --steps       random ADD, DEL, CHECK, lost containers and kills; 100000
  --seed        does again what an earlier run printed
  --containers  how many there may be at once; 32
  --agent       what node runs as the agent; dist/seine-agent.mjs
  --json        the figures, as the last line

Real are: agent, plugin, Open vSwitch (userspace data path), namespaces, interfaces, journal, API server of the lab. The runtime is
the lab's, which calls the plugin as libcni does.
`;

const options = {
  steps: { type: 'string', default: '100000' },
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
  const [steps, containers] = [wholeNumber('steps', values.steps), wholeNumber('containers', values.containers)];
  const seed = values.seed === undefined ? Math.floor(Math.random() * 2 ** 31) : wholeNumber('seed', values.seed);
  const say = (line: string): void => void process.stderr.write(`${line}\n`);
  say(`${steps} steps, ${containers} containers, seed ${seed}`);
  const startedMs = performance.now();
  const lab = await ConvergeLab.start(1, values.agent);
  try {
    const runtime = await CrashRuntime.start(lab, containers, new AbortController().signal);
    const outcome = await new Soak({ lab, runtime, agent: values.agent, steps, random: generator(seed), say }).run();
    say(JSON.stringify(runtime.counts));
    for (const problem of outcome.problems) say(`! ${problem}`);
    const minutes = ((performance.now() - startedMs) / 60_000).toFixed(1);
    say(
      `${outcome.problems.length === 0 ? 'held' : 'FAILED'}: ${outcome.steps} steps, ${outcome.agentKills} kills of the agent, ${minutes} minutes`,
    );
    if (values.json) process.stdout.write(`${JSON.stringify({ seed, ...outcome })}\n`);
    return outcome.problems.length === 0 ? 0 : 1;
  } finally {
    await lab.remove();
  }
}

await runScript(main);
