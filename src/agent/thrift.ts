import { setFlagsFromString } from 'node:v8';
import { idle } from '../async/pause.ts';
import { returnFreeMemory } from '../netlink/free-memory.ts';

/** By then the engine has looked for the garbage of the start; it waits eight seconds for a quiet moment (ms). */
const COLLECTED_MS = 15_000;

/**
 * From now on the engine spends processor time to hold less memory: it looks for garbage while there is nothing to do, and gives pages
 * back. For when the agent is in step: while it starts, a fifth of what it allocates stays, and collecting all the time takes longer
 * than the work itself.
 *
 * The flag is looked at whenever the engine plans a collection (V8 `Heap::ShouldOptimizeForMemoryUsage`), so that it may be set while it
 * runs. Given on the command line it would also make the young generation too small for a start, whatever else is said of its size.
 */
export async function beThrifty(signal: AbortSignal): Promise<void> {
  setFlagsFromString('--optimize-for-size');
  await idle(COLLECTED_MS, signal);
  if (!signal.aborted) returnFreeMemory();
}
