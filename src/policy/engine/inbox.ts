import type { Steps } from '../../base/async/steps.ts';

/** Queue of changes. Changes that arrive during a round wait, in their order, for the next one; at other times they are applied at once. */
export class Inbox {
  #waiting: (() => void)[] = [];
  /** Namespaces of policies that wait, or are being applied. */
  #namespaces = new Set<string>();
  #taken: ReadonlySet<string> = new Set();
  #isOpen = true;

  /** Applies or queues a change. @param rulesOf namespace of the policy, if the change concerns a policy */
  take(work: () => void, rulesOf?: string): void {
    if (this.#isOpen && this.#waiting.length === 0) {
      work();
      return;
    }
    this.#waiting.push(work);
    if (rulesOf !== undefined) this.#namespaces.add(rulesOf);
  }

  get size(): number {
    return this.#waiting.length;
  }

  /** Reports whether policies of this namespace wait. */
  hasRulesOf(namespace: string): boolean {
    return this.#namespaces.has(namespace) || this.#taken.has(namespace);
  }

  /** Applies all waiting changes. Changes that arrive from now on wait until `open`. */
  *empty(): Steps {
    this.#isOpen = false;
    const work = this.#waiting;
    this.#taken = this.#namespaces;
    this.#waiting = [];
    this.#namespaces = new Set();
    for (const each of work) {
      each();
      yield;
    }
    this.#taken = new Set();
  }

  open(): void {
    this.#isOpen = true;
  }
}
