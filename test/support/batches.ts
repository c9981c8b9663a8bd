import { setImmediate } from 'node:timers/promises';

/** A part of a run that takes hours. */
export interface Batch {
  /** Its own: with it, and as many `runs`, the batch is repeated alone. */
  readonly seed: number;
  readonly runs: number;
}

const batchMost = 250;

/**
 * A long run in batches, so that whoever waits sees how far it is, and a test's worker lives meanwhile. What is no more than a batch
 * has the run's own seed and says nothing.
 */
export async function* batches(what: string, { seed, runs }: Batch): AsyncGenerator<Batch> {
  const startMs = performance.now();
  for (let done = 0; done < runs; done += batchMost) {
    yield { seed: seed + done / batchMost, runs: Math.min(batchMost, runs - done) };
    if (runs <= batchMost) return;
    const seconds = Math.round((performance.now() - startMs) / 1000);
    process.stdout.write(`${what}: ${Math.min(runs, done + batchMost)} of ${runs}, ${seconds} s\n`);
    await setImmediate();
  }
}

/** For a test of so many runs (ms): on a machine that does other things as well. */
export function timeoutOf(runs: number): number {
  return 600_000 + runs * 5_000;
}
