#!/usr/bin/env node
/** `npm run test:torture`: harms and changes a running cluster by a seed, and compares its node with what a virgin agent makes. */
import { parseArgs } from 'node:util';
import { runScript, wholeNumber } from '../support/script.ts';
import { shippedAgent } from './lab.ts';
import { type StepReport, Torture } from './run.ts';

const help = `npm run test:torture -- [--seed N] [--steps N] [--from N] [--agent FILE] [--patience N]

  --seed      of what is done; a new one without it, which is printed
  --steps     how many; 20
  --from      number of the first step; 0. A run in pieces, from fresh labs, is a seed and ranges of steps
  --agent     what node runs as the tried agent; dist/seine-agent.mjs, which every virgin agent is
  --patience  how many times the deadlines of docs/reliability.md, for a machine that does other things as well; 1
`;

const options = {
  seed: { type: 'string' },
  steps: { type: 'string', default: '20' },
  from: { type: 'string', default: '0' },
  agent: { type: 'string', default: shippedAgent },
  patience: { type: 'string', default: '1' },
  help: { type: 'boolean', default: false },
} as const;

async function main(): Promise<number> {
  const { values } = parseArgs({ options });
  if (values.help) {
    process.stdout.write(help);
    return 0;
  }
  const seed = values.seed === undefined ? Math.floor(Math.random() * 2 ** 31) : wholeNumber('seed', values.seed, 0);
  const from = wholeNumber('from', values.from, 0);
  const steps = Array.from({ length: wholeNumber('steps', values.steps) }, (_, index) => from + index);
  say(`seed ${seed}, steps ${from} to ${from + steps.length - 1}`);
  const torture = await Torture.begin({ seed, steps, agent: values.agent, patience: wholeNumber('patience', values.patience), say });
  try {
    for await (const report of torture.steps()) {
      tell(report);
      if (report.problems.length > 0) return 1;
    }
    return 0;
  } finally {
    await torture.end();
  }
}

function tell({ number, agent, deeds, problems, tookMs }: StepReport): void {
  say(`${number} agent ${agent}: ${deeds.join('; ')} (${Math.round(tookMs)} ms)`);
  for (const problem of problems) say(`    ${problem}`);
}

function say(line: string): void {
  process.stderr.write(`${line}\n`);
}

await runScript(main);
