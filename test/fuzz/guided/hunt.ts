import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { SeededRandom } from '../random.ts';
import type { Coverage } from './coverage.ts';
import { mutated } from './mutations.ts';
import { Reader } from './reader.ts';
import type { Target } from './target.ts';

/** Looking at the counters takes as long as many inputs: which of them ran something new is looked for only if one did. */
const batch = 50;
const latest = 8;
/** Batches between two looks at the heap. */
const heapEvery = 100;
/** What a reader may keep of all that it was given, beside what the engine keeps of code that has run. */
const growthBytesMax = 8 * 1024 * 1024;

interface HuntOptions {
  readonly target: Target;
  /** What to begin with. */
  readonly inputs: readonly Buffer[];
  readonly coverage: Coverage;
  readonly random: SeededRandom;
  readonly isOver: (inputs: number) => boolean;
  readonly progress: (bag: Bag) => void;
}

export interface Bag {
  /** Those that ran something that none before them did. */
  readonly kept: readonly Buffer[];
  readonly inputs: number;
  readonly read: number;
  readonly slowestMs: number;
  /** By how much the heap has grown since a quarter of the looks at it. */
  readonly grownBytes: number;
}

/** Gives a reader inputs made from those that ran something new, and keeps those that do so themselves. @throws Fault; Error if it keeps more and more */
export async function hunt({ target, inputs, coverage, random, isOver, progress }: HuntOptions): Promise<Bag> {
  const reader = new Reader(target);
  const kept: Buffer[] = [];
  const keepIfNew = async (input: Buffer): Promise<void> => {
    await reader.take(input);
    if (coverage.take() > 0) kept.push(input);
  };
  // What was run by loading the sources is no input's.
  coverage.take();
  for (const input of inputs) await keepIfNew(input);
  if (kept.length === 0) throw new Error(`${target.name}: no seed runs anything`);
  const heaps: number[] = [];
  const bag = (): Bag => ({ kept, ...counts(reader), grownBytes: grown(heaps) });
  for (let batches = 1; !isOver(reader.inputs); batches += 1) {
    const tried = Array.from({ length: batch }, () => mutated(chosen(kept, random), random, kept));
    for (const input of tried) await reader.take(input);
    if (coverage.peek() > 0) for (const input of tried) await keepIfNew(input);
    if (batches % heapEvery !== 0) continue;
    heaps.push(heapBytes());
    progress(bag());
  }
  const whole = bag();
  if (whole.grownBytes > growthBytesMax) throw new Error(`${target.name}: the heap grew by ${(whole.grownBytes / 2 ** 20).toFixed(1)} MiB`);
  return whole;
}

/** The latest half of the time: what they ran is what the least was tried with. */
function chosen(kept: readonly Buffer[], random: SeededRandom): Buffer {
  return random.pick(random.chance(0.5) ? kept.slice(-latest) : kept);
}

function counts({ inputs, read, slowestMs }: Reader): Pick<Bag, 'inputs' | 'read' | 'slowestMs'> {
  return { inputs, read, slowestMs };
}

function grown(heaps: readonly number[]): number {
  const from = heaps[Math.floor(heaps.length / 4)];
  const last = heaps.at(-1);
  return from === undefined || last === undefined ? 0 : Math.max(0, last - from);
}

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

function heapBytes(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}
