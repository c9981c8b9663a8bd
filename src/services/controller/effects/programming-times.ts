import type { ObserveProgramming } from '../ports.ts';
import type { Arrival, ServiceChange, ServiceSubscriber } from '../service-changes.ts';

/** Last change of a Service's entries on OVS. */
interface Programmed {
  readonly at: Date;
  /** Time from the event to the acknowledgement; undefined until OVS has acknowledged it. */
  readonly tookMs: number | undefined;
}

/** Maximum number of triggers that are distinguished: one Service rarely has more slices that change at once. */
const TRIGGERS_MAX = 64;
/**
 * Longest plausible time (ms): clocks of two hosts differ, and an object may be older than the agent, so longer times do not measure the
 * network.
 */
const PLAUSIBLE_MS = 10 * 60_000;

interface ProgrammingTimesOptions {
  readonly observe: ObserveProgramming;
  readonly nowMs?: () => number;
  readonly clockMs?: () => number;
}

/**
 * Durations of changes of Services: from the watch event, and from the time that the controller recorded in the slice
 * (`endpoints.kubernetes.io/last-change-trigger-time`), to OVS's acknowledgement. The second is the SLI "network programming latency" of
 * Kubernetes; each trigger counts once, and those before the agent's start do not.
 */
export class ProgrammingTimes implements ServiceSubscriber {
  /** Clock of `atMs`. */
  readonly nowMs: () => number;
  readonly #observe: ObserveProgramming;
  readonly #clockMs: () => number;
  readonly #startedMs: number;
  readonly #last = new Map<string, { readonly atMs: number; tookMs: number | undefined }>();
  /** Newest trigger that was counted, by Service. */
  readonly #counted = new Map<string, number>();

  constructor({ observe, nowMs = () => performance.now(), clockMs = () => Date.now() }: ProgrammingTimesOptions) {
    this.#observe = observe;
    this.nowMs = nowMs;
    this.#clockMs = clockMs;
    this.#startedMs = clockMs();
  }

  /** @param waiting earlier arrival that has not been handled yet */
  arrived(waiting: Arrival | undefined, triggeredAt: string | undefined, atMs = this.nowMs()): Arrival {
    const triggerMs = triggeredAt === undefined ? Number.NaN : Date.parse(triggeredAt);
    const known = waiting?.triggeredMs ?? [];
    const isNew = triggerMs >= this.#startedMs && !known.includes(triggerMs) && known.length < TRIGGERS_MAX;
    return { atMs: Math.min(waiting?.atMs ?? Infinity, atMs), triggeredMs: isNew ? [...known, triggerMs] : known };
  }

  changed(change: ServiceChange, acknowledged: Promise<void>): void {
    if (change.hasMore) return;
    if (change.service) this.programmed(change.key, change, acknowledged);
    else this.forget(change.key);
  }

  /**
   * @param acknowledged resolves when OVS has the change
   * @param change `start` for a Service found at a start, whose time does not measure a change
   */
  programmed(
    key: string,
    { arrival: { atMs: arrivedMs, triggeredMs }, occasion }: { readonly arrival: Arrival; readonly occasion: 'news' | 'start' },
    acknowledged: Promise<void>,
  ): void {
    const last: { readonly atMs: number; tookMs: number | undefined } = { atMs: this.#clockMs(), tookMs: undefined };
    this.#last.set(key, last);
    acknowledged.then(
      () => {
        const tookMs = this.nowMs() - arrivedMs;
        last.tookMs = tookMs;
        if (occasion === 'start') return;
        this.#observe('service_programming_duration_seconds', {}, tookMs / 1_000);
        this.#countTriggers(key, triggeredMs);
      },
      () => undefined, // the agent stops
    );
  }

  of(key: string): Programmed | undefined {
    const last = this.#last.get(key);
    return last && { at: new Date(last.atMs), tookMs: last.tookMs };
  }

  forget(key: string): void {
    this.#last.delete(key);
    this.#counted.delete(key);
  }

  #countTriggers(key: string, triggeredMs: readonly number[]): void {
    const newest = this.#counted.get(key) ?? 0;
    for (const triggerMs of triggeredMs) {
      const tookMs = this.#clockMs() - triggerMs;
      if (triggerMs <= newest || tookMs < 0 || tookMs > PLAUSIBLE_MS) continue;
      this.#observe('network_programming_duration_seconds', {}, tookMs / 1_000);
    }
    if (triggeredMs.length > 0 && this.#last.has(key)) this.#counted.set(key, Math.max(newest, ...triggeredMs));
  }
}
