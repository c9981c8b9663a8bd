/**
 * Stage of a call: `ready` (waiting for the data plane), `turn` (waiting for other calls of the container), `addresses` (IPAM), `wiring`
 * (data plane), `disk` (remaining time until the lease is on disk).
 */
export type StageName = 'ready' | 'turn' | 'addresses' | 'wiring' | 'disk';

/** Durations by stage (ms); a stage that occurs twice has the sum. */
export class StageTimes {
  readonly #ms = new Map<StageName, number>();

  async measure<T>(stage: StageName, work: Promise<T>): Promise<T> {
    const startedMs = performance.now();
    try {
      return await work;
    } finally {
      this.add(stage, performance.now() - startedMs);
    }
  }

  add(stage: StageName, ms: number): void {
    this.#ms.set(stage, (this.#ms.get(stage) ?? 0) + ms);
  }

  get entries(): readonly (readonly [StageName, number])[] {
    return [...this.#ms];
  }
}
