import { type Plan, type Target, visitAll } from './target.ts';

/** A target that can be looked at while it is written to, and told apart from what it should hold. */
export class WatchedTarget<K, V> implements Target<K, V> {
  readonly #target: Target<K, V>;
  readonly #equal: (a: V, b: V) => boolean;
  /** What was written since a look began; absent while there is none. */
  #written: Set<K> | undefined;

  constructor(target: Target<K, V>, equal: (a: V, b: V) => boolean) {
    this.#target = target;
    this.#equal = equal;
  }

  observe(signal: AbortSignal): Promise<Map<K, V>> {
    return this.#target.observe(signal);
  }

  async apply(plan: Plan<K, V>, signal: AbortSignal): Promise<void> {
    for (const key of [...plan.put.keys(), ...plan.remove]) this.#written?.add(key);
    await this.#target.apply(plan, signal);
  }

  /**
   * Looks at everything, and says whether it is otherwise than `actual`, which may change meanwhile. For one caller at a time.
   *
   * Leaves out what is written meanwhile: it may have been seen before or after. What is gone is found by counting, as nothing that
   * is seen is kept: beside something that was seen and then written it may be missed, until the next look.
   *
   * @throws SeineError as the target's `observe`
   */
  async differsFrom(actual: ReadonlyMap<K, V>, signal: AbortSignal): Promise<boolean> {
    const written = new Set<K>();
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
