import { setTimeout as sleep } from 'node:timers/promises';
import type { Place } from './host.ts';
import { compareRenamed, type Difference, surplus } from './renaming.ts';
import { type PodNamespace, type Snapshot, snapshotOf } from './snapshot.ts';

const pollMs = 100;
/** Limit for the stable state: a fresh agent that is ready still writes the consequences of its pods. */
const steadyMs = 300_000;
/** Failed observations after the deadline before they are the verdict: alone they say nothing about the node. */
const maxFailedObservations = 5;

/** Result of a step. */
export interface Verdict {
  /** Differences; empty if the node is correct. */
  readonly problems: readonly string[];
  /** Time from the end of the step to the observation that found it correct (ms). */
  readonly tookMs: number;
}

/** The node under chaos, and its present pods. */
export interface TriedNode {
  readonly place: Place;
  readonly pods: () => Promise<readonly PodNamespace[]>;
}

/** Differences of two snapshots, a line each. */
export function differences(tried: Snapshot, wanted: Snapshot): readonly string[] {
  const plain = { more: surplus(tried.plain, tried.plain, wanted.plain), missing: surplus(wanted.plain, wanted.plain, tried.plain) };
  return [...printed(compareRenamed(tried.numbered, wanted.numbered)), ...printed(plain)];
}

function printed({ more, missing }: Difference): readonly string[] {
  return [...more.map((line) => `+ ${line}`), ...missing.map((line) => `- ${line}`)];
}

/** Snapshot of a fresh node once nothing changes any more. */
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
 * Observes the tested node until it is in the desired state, or its time is over.
 *
 * @param wanted may take longer than the deadline: it then judges the state that the tested node had by that time
 * @param since end of the step (`performance.now()`)
 */
export async function judge(tried: TriedNode, wanted: Promise<Snapshot>, since: number, withinMs: number): Promise<Verdict> {
  const known = await knownBy(wanted, since + withinMs);
  for (let failed = 0; ; ) {
    const checkedMs = performance.now() - since;
    const found = await attempt(tried);
    const isOver = checkedMs >= withinMs;
    const problems = typeof found === 'string' ? [found] : differences(found, known ?? (await wanted));
    if (typeof found === 'string' && isOver) failed++;
    if (problems.length === 0 || (isOver && (typeof found !== 'string' || failed > maxFailedObservations)))
      return { problems, tookMs: checkedMs };
    await sleep(pollMs);
  }
}

/** Value if it resolves before the moment, or undefined. */
async function knownBy(wanted: Promise<Snapshot>, moment: number): Promise<Snapshot | undefined> {
  const over = new AbortController();
  const late = sleep(Math.max(0, moment - performance.now()), undefined, { signal: over.signal }).catch(() => undefined);
  try {
    return await Promise.race([wanted, late]);
  } finally {
    over.abort();
  }
}

/** Snapshot, or the reason why the state cannot be observed, e.g. while OVS does not run. */
async function attempt({ place, pods }: TriedNode): Promise<Snapshot | string> {
  try {
    return await snapshotOf(place, await pods());
  } catch (error) {
    return `! ${error instanceof Error ? error.message : String(error)}`;
  }
}
