import { setImmediate } from 'node:timers/promises';

/** A part of a run that takes hours. */
export interface Batch {
  /** Its own seed: with it, and the same number of `runs`, the batch can be repeated alone. */
  readonly seed: number;
  readonly runs: number;
}

const batchMost = 250;

/**
 * A long run in batches, so that its progress is printed, and a test's worker stays responsive. A run of one batch has the run's own seed
 * and prints nothing.
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

/** Timeout of a test with this number of runs (ms), on a busy host. */
export function timeoutOf(runs: number): number {
  return 600_000 + runs * 5_000;
}
