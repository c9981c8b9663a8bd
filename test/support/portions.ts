import { setImmediate } from 'node:timers/promises';

/** A part of a run that takes hours. */
export interface Portion {
  /** Its own: with it, and as many `runs`, the portion is repeated alone. */
  readonly seed: number;
  readonly runs: number;
}

const portionMost = 250;

/**
 * A long run in portions, so that whoever waits sees how far it is, and a test's worker lives meanwhile. What is no more than a portion
 * has the run's own seed and says nothing.
 */
export async function* portions(what: string, { seed, runs }: Portion): AsyncGenerator<Portion> {
  const startMs = performance.now();
  for (let done = 0; done < runs; done += portionMost) {
    yield { seed: seed + done / portionMost, runs: Math.min(portionMost, runs - done) };
    if (runs <= portionMost) return;
    const seconds = Math.round((performance.now() - startMs) / 1000);
    process.stdout.write(`${what}: ${Math.min(runs, done + portionMost)} of ${runs}, ${seconds} s\n`);
    await setImmediate();
  }
}

/** For a test of so many runs (ms): on a machine that does other things as well. */
export function timeoutOf(runs: number): number {
  return 600_000 + runs * 5_000;
}
