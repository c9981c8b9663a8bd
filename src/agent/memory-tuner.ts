import { performance } from 'node:perf_hooks';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { idle } from '../base/async/pause.ts';
import { returnFreeMemory } from '../netlink/free-memory.ts';

/** How often it is looked how busy the event loop was (ms). */
const LOOK_MS = 500;
/** Shares of the time in which the event loop worked: from here on it is busy, and below that calm. */
const BUSY = 0.3;
const CALM = 0.1;
/** So long it has to be calm before memory counts more than time again (ms). */
const CALM_MS = 10_000;
/** By then the engine has looked for the garbage of what was; it waits eight seconds for a quiet moment (ms). */
const COLLECTED_MS = 15_000;

/** `spend` memory while there is much to do, `save` it while there is not, `giveBack` once what was garbage is collected. */
type MemoryTunerStep = 'spend' | 'save' | 'giveBack';

/** Decides what memory is worth, by how busy the event loop is. Begins by saving. */
export class MemoryTuner {
  #saves = true;
  #calmMs = 0;
  #gaveBack = false;

  /** @param share of the last `ms` in which the event loop worked. @returns what is to be done now, if anything */
  next(share: number, ms: number): MemoryTunerStep | undefined {
    this.#calmMs = share < CALM ? this.#calmMs + ms : 0;
    if (share >= BUSY) return this.#begin('spend');
    if (!this.#saves) return this.#calmMs >= CALM_MS ? this.#begin('save') : undefined;
    if (this.#gaveBack || this.#calmMs < COLLECTED_MS) return undefined;
    this.#gaveBack = true;
    return 'giveBack';
  }

  #begin(step: 'spend' | 'save'): MemoryTunerStep | undefined {
    const saves = step === 'save';
    if (saves === this.#saves) return undefined;
    this.#saves = saves;
    this.#calmMs = 0;
    this.#gaveBack = false;
    return step;
  }
}

/**
 * How much the heap may grow until the next full collection, from now on. Node's flags have more of it for the start, in which the heap grows all the time: with this,
 * a start beside 10,000 Services would collect it a dozen times, of which two found something (V8 reads it whenever it has collected).
 */
const HEAP_GROWTH_PERCENT = 30;

/**
 * From now on the engine spends processor time to hold less memory, while there is little to do: it looks for garbage in quiet moments, and
 * gives pages back. For when the agent is in step: while it starts, a fifth of what it allocates stays, and collecting all the time takes
 * longer than the work itself. So it does while thousands of nodes join: full collections are twice as many then.
 *
 * The flag is looked at whenever the engine plans a collection (V8 `Heap::ShouldOptimizeForMemoryUsage`), so that it may be set while it
 * runs. Given on the command line it would also make the young generation too small for a start, whatever else is said of its size.
 */
export async function tuneMemory(signal: AbortSignal): Promise<void> {
  const tuner = new MemoryTuner();
  setFlagsFromString(`--heap-growing-percent=${HEAP_GROWTH_PERCENT}`);
  collectOnce();
  carryOut.save();
  let before = performance.eventLoopUtilization();
  while (!signal.aborted) {
    await idle(LOOK_MS, signal);
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
  giveBack: returnFreeMemory,
};

/**
 * A full collection, now: when the engine plans the next one it decides at the end of the last, and that was in the start, so that with the growth of a start the next might be
 * never. It holds the event loop for a fifth of a second beside 10,000 Services, once in the agent's life.
 */
function collectOnce(): void {
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  if (typeof collect === 'function') collect();
  setFlagsFromString('--no-expose-gc');
}
