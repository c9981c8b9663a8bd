import type { SeineError } from '../../../base/errors/seine-error.ts';
import { DesiredState } from '../desired-state.ts';
import { PackedMap, type Packing } from '../packed-entries.ts';
import { Reconciler } from '../reconciler.ts';
import type { EntryPoints } from '../refill.ts';
import { FakeTarget } from './fake-target.ts';

const equal = (a: number, b: number): boolean => a === b;

/** Creates a reconciler between a desired state and an in-memory target, with a manual clock and recorded events. For its tests. */
export function reconcilerScene({
  batchSize = 100,
  batchSizeWithUrgent = batchSize,
  refusals = 'ifObserved',
  sideBySide = 1,
  packings = [],
  entryPoints,
  gatherMs = 0,
  restMs = 0,
}: {
  readonly batchSize?: number;
  readonly batchSizeWithUrgent?: number;
  readonly refusals?: 'ifObserved' | 'certain';
  readonly sideBySide?: number;
  readonly packings?: readonly Packing<string, number>[];
  readonly entryPoints?: EntryPoints<string, number>;
  readonly gatherMs?: number;
  readonly restMs?: number;
} = {}) {
  const desired = new DesiredState<string, number>({ equal, isUrgent: (owner) => owner.startsWith('urgent'), packings });
  const target = new PackedTarget(packings);
  const { events, ...said } = notebook();
  let nowMs = 0;
  const reconciler = new Reconciler<string, number>({
    name: 'fake',
    desired,
    target,
    equal,
    batchSize,
    batchSizeWithUrgent,
    refusals,
    sideBySide,
    gatherMs,
    restMs,
    ...(entryPoints && { entryPoints }),
    backoffMs: () => 0,
    now: () => nowMs,
    events,
  });
  const deadline = (): AbortSignal => AbortSignal.timeout(5_000);
  const want = async (owner: string, entries: Record<string, number>): Promise<void> => {
    const revision = desired.set(owner, new Map(Object.entries(entries)));
    reconciler.poke();
    await reconciler.realizedFor(owner, revision, deadline());
  };
  /** Resolves after a round that has seen the current revision. */
  const round = async (): Promise<void> => {
    const revision = desired.set('tick', new Map([['tick', Math.random()]]));
    reconciler.poke();
    await reconciler.realized(revision, deadline());
  };
  const pass = (ms: number): void => {
    nowMs += ms;
  };
  const stop = new AbortController();
  let running: Promise<void> | undefined;
  const start = (): void => {
    running = reconciler.run(stop.signal);
  };
  const end = async (): Promise<void> => {
    stop.abort();
    await running;
  };
  return { desired, target, reconciler, ...said, want, round, deadline, pass, start, end };
}

/** Visits its entries like the bridge's target. */
class PackedTarget extends FakeTarget<string, number> {
  readonly #packings: readonly Packing<string, number>[];

  constructor(packings: readonly Packing<string, number>[]) {
    super();
    this.#packings = packings;
  }

  override async observe(): Promise<Map<string, number>> {
    const shown = new PackedMap(this.#packings);
    for (const [key, value] of await super.observe()) shown.set(key, value);
    return shown;
  }
}

/** Records the reconciler's events. */
function notebook() {
  const drift: string[] = [];
  const repaired: number[] = [];
  const refused: [string, SeineError][] = [];
  const over: string[] = [];
  const losses: string[] = [];
  const writes: string[] = [];
  const events = {
    round: () => writes.push('round'),
    urgent: () => writes.push('urgent'),
    failure: () => over.push('failure'),
    recovered: () => over.push('recovered'),
    accepted: (owner: string) => over.push(`accepted ${owner}`),
    refused: (owner: string, error: SeineError) => refused.push([owner, error]),
    drift: (keys: readonly string[]) => drift.push(...keys),
    repaired: (tookMs: number) => repaired.push(tookMs),
    lost: (keys: readonly string[]) => losses.push(`lost ${keys.join(' ')}`),
    complete: () => losses.push('complete'),
  };
  return { events, drift, repaired, refused, over, losses, writes };
}
