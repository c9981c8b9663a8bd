import { cpus, loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import { runScript, UsageError } from '../support/script.ts';
import { setUrgency, urgent } from '../support/urgency.ts';
import { type Measured, rowOf, tableOf } from './row.ts';
import { scenes } from './scenes.ts';

const usage = `Usage: npm run bench -- [--json] [--only PREFIX]

Measures Seine and, where there is one, another program with the same function in the same run. Needs root. Prints the table and the
progress to standard error.

  --json          print the rows as JSON in the last line of standard output
  --only PREFIX   only rows whose names begin with this; all rows take about 25 minutes
`;

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      json: { type: 'boolean', default: false },
      only: { type: 'string', default: '' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    process.stdout.write(usage);
    return;
  }
  const selected = (name: string): boolean => name.startsWith(values.only);
  if (!scenes.some(({ rows }) => rows.some(selected))) throw new UsageError(`no row begins with "${values.only}"`);
  // And all children: other work on the host affects either side less.
  const putBack = setUrgency(process.pid, urgent);
  const startedMs = performance.now();
  print(`${cpus().length} processors, load ${loadText()}`);
  const measured: Measured[] = [];
  try {
    for (const scene of scenes) if (scene.rows.some(selected)) measured.push(...(await scene.measure({ selected, print })));
  } finally {
    putBack();
  }
  const rows = measured.map(rowOf);
  print(`\n${tableOf(rows)}\n\nload at the end ${loadText()}, ${Math.round((performance.now() - startedMs) / 1000)} s`);
  if (values.json) process.stdout.write(`${JSON.stringify(rows)}\n`);
}

function print(text: string): void {
  process.stderr.write(`${text}\n`);
}

function loadText(): string {
  return loadavg()
    .map((load) => load.toFixed(1))
    .join(' ');
}

await runScript(main);
