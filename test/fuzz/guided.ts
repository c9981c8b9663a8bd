import { createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { packageRoot } from '../../lab/machine/installation.ts';
import { runScript, UsageError, wholeNumber } from '../support/script.ts';
import { storeCorpus, storedCorpus } from './guided/corpus.ts';
import { Coverage } from './guided/coverage.ts';
import { type Bag, hunt } from './guided/hunt.ts';
import { Fault } from './guided/reader.ts';
import type { Target } from './guided/target.ts';
import { targets } from './guided/targets.ts';
import { SeededRandom } from './random.ts';

const usage = `Usage: npm run test:fuzz:guided -- [NAME ...] [--seed N] [--minutes N | --inputs N] [--keep]

Feeds randomly mutated input to each parser, guided by coverage: inputs that run new code are mutated further. Each input must be decoded or
rejected correctly within 50 ms of CPU time, and the heap must not grow. Starts from the corpora of test/fixtures/fuzz.

${targets.map(({ name, what }) => `  ${name.padEnd(9)} ${what}`).join('\n')}

  --seed N      seed (default: random); the same seed and number of inputs repeat a run
  --minutes N   duration for each parser (default 1)
  --inputs N    number of inputs for each parser, instead of a duration
  --keep        add inputs that ran new code to test/fixtures/fuzz
`;

const minuteMs = 60_000;
const progressMs = 30_000;

const options = {
  seed: { type: 'string' },
  minutes: { type: 'string' },
  inputs: { type: 'string' },
  keep: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const;

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  if (values.help) {
    process.stdout.write(usage);
    return 0;
  }
  const unknown = positionals.find((name) => !targets.some((target) => target.name === name));
  if (unknown !== undefined)
    throw new UsageError(`${JSON.stringify(unknown)}: one of ${targets.map(({ name }) => name).join(', ')} is wanted`);
  const seed = values.seed === undefined ? Math.floor(Math.random() * 2 ** 32) : wholeNumber('seed', values.seed, 0);
  const inputs = values.inputs === undefined ? undefined : wholeNumber('inputs', values.inputs);
  const minutes = wholeNumber('minutes', values.minutes ?? '1');
  let code = 0;
  for (const target of targets) {
    if (positionals.length > 0 && !positionals.includes(target.name)) continue;
    const over = inputs === undefined ? afterMs(minutes * minuteMs) : (done: number) => done >= inputs;
    const bag = await huntOrReport(target, seed, over);
    if (bag === undefined) code = 1;
    else if (values.keep) storeCorpus(target, bag.kept);
  }
  return code;
}

function afterMs(ms: number): () => boolean {
  const endMs = performance.now() + ms;
  return () => performance.now() > endMs;
}

/** @returns `undefined` after a fault, which is printed */
async function huntOrReport(target: Target, seed: number, isOver: (inputs: number) => boolean): Promise<Bag | undefined> {
  const coverage = new Coverage((url) => url.startsWith(sources));
  let nextMs = performance.now() + progressMs;
  const sum = (bag: Bag): string =>
    `${bag.inputs} inputs, ${bag.read} read; ${coverage.blocks} blocks run, by ${bag.kept.length} of them; the slowest took ${bag.slowestMs.toFixed(1)} ms`;
  const progress = (bag: Bag): void => {
    if (performance.now() < nextMs) return;
    nextMs = performance.now() + progressMs;
    print(`  ${sum(bag)}`);
  };
  print(`${target.name}: --seed ${seed}`);
  try {
    const inputs = [...storedCorpus(target), ...target.seeds().map((input) => Buffer.from(input))];
    const bag = await hunt({ target, inputs, coverage, random: new SeededRandom(seed), isOver, progress });
    print(`${target.name}: ${sum(bag)}; the heap grew by ${(bag.grownBytes / 2 ** 20).toFixed(1)} MiB`);
    return bag;
  } catch (thrown) {
    if (!(thrown instanceof Error)) throw thrown;
    print(`${target.name}: ${thrown.message}${thrown instanceof Fault ? `\n  the input is ${kept(target, thrown.input)}` : ''}`);
    return undefined;
  } finally {
    coverage.stop();
  }
}

const sources = new URL('../../src/', import.meta.url).href;

/** @returns the file with the input */
function kept({ name }: Target, input: Buffer): string {
  const folder = join(packageRoot, '.cache', 'fuzz');
  mkdirSync(folder, { recursive: true });
  const file = join(folder, `${name}-${createHash('sha256').update(input).digest('hex').slice(0, 12)}`);
  writeFileSync(file, input);
  return file;
}

function print(text: string): void {
  process.stderr.write(`${text}\n`);
}

await runScript(main);
