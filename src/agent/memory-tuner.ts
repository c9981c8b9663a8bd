import { performance } from 'node:perf_hooks';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { idle } from '../base/async/pause.ts';
import { returnFreeMemory } from '../netlink/free-memory.ts';

/** Interval between checks of the event loop's load (ms). */
const CHECK_MS = 500;
/** Shares of the time in which the event loop worked: above the first it is busy, below the second idle. */
const BUSY = 0.3;
const CALM = 0.1;
/** Time that it has to be idle before memory counts more than time again (ms). */
const CALM_MS = 10_000;
/** Time after which the engine has collected earlier garbage; it waits eight seconds for an idle moment (ms). */
const COLLECTED_MS = 15_000;

/** `spend` memory while there is much to do, `save` it while there is not, `release` once garbage is collected. */
type MemoryTunerStep = 'spend' | 'save' | 'release';

/** Decides between memory and time, by the load of the event loop. Begins by saving memory. */
export class MemoryTuner {
  #saves = true;
  #calmMs = 0;
  #released = false;

  /** @param share of the last `ms` in which the event loop worked. @returns the next step, if any */
  next(share: number, ms: number): MemoryTunerStep | undefined {
    this.#calmMs = share < CALM ? this.#calmMs + ms : 0;
    if (share >= BUSY) return this.#begin('spend');
    if (!this.#saves) return this.#calmMs >= CALM_MS ? this.#begin('save') : undefined;
    if (this.#released || this.#calmMs < COLLECTED_MS) return undefined;
    this.#released = true;
    return 'release';
  }

  #begin(step: 'spend' | 'save'): MemoryTunerStep | undefined {
    const saves = step === 'save';
    if (saves === this.#saves) return undefined;
    this.#saves = saves;
    this.#calmMs = 0;
    this.#released = false;
    return step;
  }
}

/**
 * Growth of the heap before the next full collection, after the start. Node's flags allow more for the start, in which the heap grows all
 * the time: with this value, a start with 10,000 Services would collect it a dozen times, with an effect only twice (V8 reads the flag
 * after each collection).
 */
const HEAP_GROWTH_PERCENT = 30;

/**
 * Makes the engine spend CPU time to save memory, while there is little to do: it collects garbage in idle moments, and returns pages. For
 * an agent that is synced: while it starts, a fifth of its allocations stays, and collecting all the time takes longer than the work
 * itself. The same applies while thousands of nodes join: there are twice as many full collections then.
 *
 * The engine reads the flag whenever it plans a collection (V8 `Heap::ShouldOptimizeForMemoryUsage`), so it may be set at run time. Given
 * on the command line it would also make the young generation too small for a start, with any other flags for its size.
 */
export async function tuneMemory(signal: AbortSignal): Promise<void> {
  const tuner = new MemoryTuner();
  setFlagsFromString(`--heap-growing-percent=${HEAP_GROWTH_PERCENT}`);
  collectOnce();
  carryOut.save();
  let before = performance.eventLoopUtilization();
  while (!signal.aborted) {
    await idle(CHECK_MS, signal);
    const now = performance.eventLoopUtilization();
    const { utilization, idle: idleMs, active: activeMs } = performance.eventLoopUtilization(now, before);
    before = now;
    const step = tuner.next(utilization, idleMs + activeMs);
    if (step !== undefined && !signal.aborted) carryOut[step]();
  }
}

const carryOut: Readonly<Record<MemoryTunerStep, () => void>> = {
  spend: () => setFlagsFromString('--no-optimize-for-size'),
  save: () => setFlagsFromString('--optimize-for-size'),
  release: returnFreeMemory,
};

/**
 * Runs a full collection: the engine decides about the next one at the end of the last, which was in the start, so that with the growth of
 * a start there might never be another. It blocks the event loop for a fifth of a second with 10,000 Services, once in the agent's life.
 */
function collectOnce(): void {
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  if (typeof collect === 'function') collect();
  setFlagsFromString('--no-expose-gc');
}
