import { SeineError } from '../errors/seine-error.ts';
import { type Plan, type Target, visitAll } from './target.ts';

/** A target that somebody else may have the say over: then it is looked at and not touched, and wishes wait. */
export class FencedTarget<K, V> implements Target<K, V> {
  readonly #target: Target<K, V>;
  readonly #whyNot: () => string | undefined;

  /** @param whyNot says why nothing may be written now; undefined if it may */
  constructor(target: Target<K, V>, whyNot: () => string | undefined) {
    this.#target = target;
    this.#whyNot = whyNot;
  }

  observe(signal: AbortSignal): Promise<Map<K, V>> {
    return this.#target.observe(signal);
  }

  visit(see: (key: K, value: V) => void, signal: AbortSignal): Promise<void> {
    return visitAll(this.#target, see, signal);
  }

  async apply(plan: Plan<K, V>, signal: AbortSignal): Promise<void> {
    const why = this.#whyNot();
    if (why !== undefined) throw new SeineError('UNAVAILABLE', why);
    await this.#target.apply(plan, signal);
  }
}
