import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { SeededRandom } from '../random.ts';
import type { Coverage } from './coverage.ts';
import { mutated } from './mutations.ts';
import { Reader } from './reader.ts';
import type { Target } from './target.ts';

/** Reading the counters takes as long as many inputs: the input that covered something new is searched only if one did. */
const batch = 50;
const latest = 8;
/** Batches between two measurements of the heap. */
const heapEvery = 100;
/** Maximum memory that a reader may retain of all its inputs, besides the engine's memory for code that has run. */
const growthBytesMax = 8 * 1024 * 1024;

interface HuntOptions {
  readonly target: Target;
  /** Initial inputs. */
  readonly inputs: readonly Buffer[];
  readonly coverage: Coverage;
  readonly random: SeededRandom;
  readonly isOver: (inputs: number) => boolean;
  readonly progress: (bag: Bag) => void;
}

export interface Bag {
  /** Inputs that covered something that none before them did. */
  readonly kept: readonly Buffer[];
  readonly inputs: number;
  readonly read: number;
  readonly slowestMs: number;
  /** Growth of the heap since a quarter of its measurements. */
  readonly grownBytes: number;
}

/**
 * Gives a reader mutations of inputs that covered something new, and keeps those that do so themselves. @throws Fault; Error if its memory
 * grows without limit
 */
export async function hunt({ target, inputs, coverage, random, isOver, progress }: HuntOptions): Promise<Bag> {
  const reader = new Reader(target);
  const kept: Buffer[] = [];
  const keepIfNew = async (input: Buffer): Promise<void> => {
    await reader.take(input);
    if (coverage.take() > 0) kept.push(input);
  };
  // Code that ran while the sources were loaded belongs to no input.
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

/** The latest half of the time: their code was exercised least. */
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
