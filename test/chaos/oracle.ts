import { setTimeout as sleep } from 'node:timers/promises';
import type { Place } from './host.ts';
import { compareRenamed, type Difference, surplus } from './renaming.ts';
import { type PodNamespace, type Snapshot, snapshotOf } from './snapshot.ts';

const pollMs = 100;
/** A virgin that is ready still writes what follows from its pods. */
const steadyMs = 300_000;
/** Looks that fail, once the time is over, before that is the verdict: by themselves they say nothing of the node. */
const failedLooksMost = 5;

/** What a step ended in. */
export interface Verdict {
  /** Empty if the node is as it ought to be. */
  readonly problems: readonly string[];
  /** From the end of the step to the look that found it so (ms). */
  readonly tookMs: number;
}

/** The node under chaos, and the pods that it has now. */
export interface TriedNode {
  readonly place: Place;
  readonly pods: () => Promise<readonly PodNamespace[]>;
}

/** What two snapshots differ in, a line each. */
export function differences(tried: Snapshot, wanted: Snapshot): readonly string[] {
  const plain = { more: surplus(tried.plain, tried.plain, wanted.plain), missing: surplus(wanted.plain, wanted.plain, tried.plain) };
  return [...told(compareRenamed(tried.numbered, wanted.numbered)), ...told(plain)];
}

function told({ more, missing }: Difference): readonly string[] {
  return [...more.map((line) => `+ ${line}`), ...missing.map((line) => `- ${line}`)];
}

/** What a virgin holds once nothing of it changes any more. */
export async function steadySnapshot(place: Place, pods: readonly PodNamespace[]): Promise<Snapshot> {
  const deadline = performance.now() + steadyMs;
  let before = await snapshotOf(place, pods);
  for (;;) {
    await sleep(pollMs);
    const now = await snapshotOf(place, pods);
    if (differences(now, before).length === 0) return now;
    if (performance.now() > deadline) throw new Error('the virgin agent does not come to rest');
    before = now;
  }
}

/**
 * Looks at the tried node until it is as wanted, or its time is over.
 *
 * @param wanted may take longer than the deadline: what the tried node held by then is judged by it
 * @param since when the step ended (`performance.now()`)
 */
export async function judge(tried: TriedNode, wanted: Promise<Snapshot>, since: number, withinMs: number): Promise<Verdict> {
  const known = await knownBy(wanted, since + withinMs);
  for (let failed = 0; ; ) {
    const lookedMs = performance.now() - since;
    const found = await attempt(tried);
    const isOver = lookedMs >= withinMs;
    const problems = typeof found === 'string' ? [found] : differences(found, known ?? (await wanted));
    if (typeof found === 'string' && isOver) failed++;
    if (problems.length === 0 || (isOver && (typeof found !== 'string' || failed > failedLooksMost))) return { problems, tookMs: lookedMs };
    await sleep(pollMs);
  }
}

/** What it resolves to before the moment, or nothing. */
async function knownBy(wanted: Promise<Snapshot>, moment: number): Promise<Snapshot | undefined> {
  const over = new AbortController();
  const late = sleep(Math.max(0, moment - performance.now()), undefined, { signal: over.signal }).catch(() => undefined);
  try {
    return await Promise.race([wanted, late]);
  } finally {
    over.abort();
  }
}

/** Or why nothing can be seen, e.g. while the switch is gone. */
async function attempt({ place, pods }: TriedNode): Promise<Snapshot | string> {
  try {
    return await snapshotOf(place, await pods());
  } catch (error) {
    return `! ${error instanceof Error ? error.message : String(error)}`;
  }
}
