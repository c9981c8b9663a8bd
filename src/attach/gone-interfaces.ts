import { Doorbell } from '../async/doorbell.ts';

/** The gateway and interfaces of pods that were deleted, until the repair takes them up. */
export class GoneInterfaces {
  readonly #bell = new Doorbell();
  readonly #names = new Set<string>();

  note(...names: readonly string[]): void {
    for (const name of names) this.#names.add(name);
    this.#bell.ring();
  }

  /** Resolves once there may be names to take, or the signal has come. */
  async wait(signal: AbortSignal): Promise<void> {
    await this.#bell.wait(signal);
  }

  /** What was noted since it was last asked. */
  take(): ReadonlySet<string> {
    const taken = new Set(this.#names);
    this.#names.clear();
    return taken;
  }
}
