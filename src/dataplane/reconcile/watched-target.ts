import { SeineError } from '../../base/errors/seine-error.ts';
import { type Plan, type Target, visitAll } from './target.ts';

/**
 * A target that can be looked at while it is written to, and told apart from what it should hold. While another agent has the bridge it is
 * looked at and not written to.
 */
export class WatchedTarget<K, V> implements Target<K, V> {
  readonly #target: Target<K, V>;
  readonly #equal: (a: V, b: V) => boolean;
  readonly #blockedBy: () => string | undefined;
  /** What was written since an observation began; absent while there is none. */
  #written: Set<K> | undefined;
  /** What is being written now. */
  readonly #writing = new Set<K>();

  /** @param blockedBy why nothing may be written now; undefined if it may */
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

  /** @throws SeineError `UNAVAILABLE` while writing is blocked; as the target's `apply` */
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
   * Leaves out what is written meanwhile: it may have been seen before or after. Missing entries are found by counting, as seen entries
   * are not kept: beside an entry that was seen and then written a missing one may be overlooked, until the next observation.
   *
   * @throws SeineError as the target's `observe`
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
