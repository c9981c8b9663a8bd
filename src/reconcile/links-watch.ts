import { Debouncer } from '../async/debouncer.ts';
import type { Link } from '../netlink/links.ts';
import { hostDifferences, linkKey } from './link-entry.ts';
import type { NodeState } from './node-state.ts';

/**
 * How long a program that deletes an interface may take to do what goes with it: delete its namespace, its port or its lease, or
 * end ovs-vswitchd (ms).
 */
const PATIENCE_MS = 150;
/** A program that changes things all the time gets a fifth of the agent's time and no more. */
const REST_FOR_EACH_LOOK = 4;

/**
 * Tells foreign changes of the node's ends from our own, which come as a row of states, of which only the last one counts. A pod's end that
 * goes down, or away, is told by the node's end.
 */
export class LinksWatch {
  readonly #state: Pick<NodeState, 'links' | 'reconcilers'>;
  readonly #now: (name: string) => Link | undefined;
  readonly #debouncer: Debouncer;
  /** Names of ends that are not as wanted, as far as was heard. */
  readonly #suspects = new Set<string>();

  /** @param now how an interface is at this moment; undefined if there is none */
  constructor(state: Pick<NodeState, 'links' | 'reconcilers'>, now: (name: string) => Link | undefined, signal: AbortSignal) {
    this.#state = state;
    this.#now = now;
    const restMs = (): number => REST_FOR_EACH_LOOK * state.reconcilers.links.observeTookMs;
    this.#debouncer = new Debouncer({ waitMs: PATIENCE_MS, restMs }, () => this.#look(), signal);
  }

  /** News of an interface, `deleted` or as it is now. */
  note(change: 'set' | 'deleted', link: Link): void {
    if (this.#isWell(link.name, change === 'set' ? link : undefined)) this.#suspects.delete(link.name);
    else {
      this.#suspects.add(link.name);
      this.#debouncer.ring();
    }
  }

  /** Also what no pod has: that is the sweep's affair. */
  #isWell(name: string, link: Link | undefined): boolean {
    const wanted = this.#state.links.wanted(linkKey(name))?.link;
    return wanted === undefined || (link?.carrier === true && hostDifferences(wanted, link).length === 0);
  }

  /** News was lost. */
  lookAgain(): void {
    this.#state.reconcilers.links.recheck();
  }

  /** Pairs that are being made are not looked at; and while many are, the news of them comes late. */
  #look(): void {
    const { links } = this.#state.reconcilers;
    const held = links.actual();
    const suspects = [...this.#suspects].filter((name) => held?.has(linkKey(name)) === true);
    this.#suspects.clear();
    if (suspects.some((name) => !this.#isWell(name, this.#now(name)))) links.recheck();
  }
}
