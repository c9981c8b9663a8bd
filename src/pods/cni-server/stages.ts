/**
 * Where the time of one call goes: `ready` (waiting for the data plane), `turn` (for other calls of the container), `addresses`
 * (IPAM), `wiring` (the data plane), `disk` (what the lease's way to the disk took longer than that).
 */
export type StageName = 'ready' | 'turn' | 'addresses' | 'wiring' | 'disk';

/** Milliseconds by stage; a stage that was gone through twice has the sum. */
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
