import type { Steps } from '../../base/async/steps.ts';

/** What is put while a round is under way waits, in its order, for the next one; at other times it is done at once. */
export class Inbox {
  #waiting: (() => void)[] = [];
  /** Namespaces of policies that wait, or that are just taken. */
  #namespaces = new Set<string>();
  #taken: ReadonlySet<string> = new Set();
  #isOpen = true;

  /** @param rulesOf the namespace whose policies it is about, if it is about policies */
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

  /** Whether policies of this namespace wait. */
  hasRulesOf(namespace: string): boolean {
    return this.#namespaces.has(namespace) || this.#taken.has(namespace);
  }

  /** Does all that waits. What comes from now on waits, until it is opened. */
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
