import { SeineError } from '../../base/errors/seine-error.ts';
import { type Plan, type Target, visitAll } from './target.ts';

/**
 * Target that can be observed while it is written to, and compared with its expected content. While another agent has the bridge, the
 * target is observed but not written to.
 */
export class WatchedTarget<K, V> implements Target<K, V> {
  readonly #target: Target<K, V>;
  readonly #equal: (a: V, b: V) => boolean;
  readonly #blockedBy: () => string | undefined;
  /** Keys written since an observation began; absent without one. */
  #written: Set<K> | undefined;
  /** Keys being written now. */
  readonly #writing = new Set<K>();

  /** @param blockedBy reason why nothing may be written now; undefined if it may */
  constructor(target: Target<K, V>, equal: (a: V, b: V) => boolean, blockedBy: () => string | undefined = () => undefined) {
    this.#target = target;
    this.#equal = equal;
    this.#blockedBy = blockedBy;
  }

  async ready(signal: AbortSignal): Promise<void> {
    await this.#target.ready?.(signal);
  }

  observe(signal: AbortSignal): Promise<Map<K, V>> {
    return this.#target.observe(signal);
  }

  /** @throws SeineError `UNAVAILABLE` while writing is blocked; like the target's `apply` */
  async apply(plan: Plan<K, V>, signal: AbortSignal): Promise<void> {
    const reason = this.#blockedBy();
    if (reason !== undefined) throw new SeineError('UNAVAILABLE', reason);
    const keys = [...plan.put.keys(), ...plan.remove];
    for (const key of keys) {
      this.#written?.add(key);
      this.#writing.add(key);
    }
    try {
      await this.#target.apply(plan, signal);
    } finally {
      for (const key of keys) this.#writing.delete(key);
    }
  }

  /**
   * Observes everything, and returns whether it differs from `actual`, which may change meanwhile. For one caller at a time.
   *
   * Ignores entries written during the observation: they may have been read before or after. Missing entries are found by counting, as
   * visited entries are not stored: an entry that was visited and then written can hide a missing one until the next observation.
   *
   * @throws SeineError like the target's `observe`
   */
  async differsFrom(actual: ReadonlyMap<K, V>, signal: AbortSignal): Promise<boolean> {
    const written = new Set<K>(this.#writing);
    this.#written = written;
    try {
      return await this.#differs(actual, written, signal);
    } finally {
      this.#written = undefined;
    }
  }

  async #differs(actual: ReadonlyMap<K, V>, written: ReadonlySet<K>, signal: AbortSignal): Promise<boolean> {
    let [same, differs] = [0, false];
    const see = (key: K, value: V): void => {
      if (written.has(key)) return;
      const held = actual.get(key);
      if (held !== undefined && this.#equal(held, value)) same++;
      else differs = true;
    };
    await visitAll(this.#target, see, signal);
    let expected = actual.size;
    for (const key of written) if (actual.has(key)) expected--;
    return differs || same < expected;
  }
}
