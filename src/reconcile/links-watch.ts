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
  readonly #debouncer: Debouncer;
  /** Names of ends that are not as wanted, as far as was heard. */
  readonly #suspects = new Set<string>();

  constructor(state: Pick<NodeState, 'links' | 'reconcilers'>, signal: AbortSignal) {
    this.#state = state;
    const restMs = (): number => REST_FOR_EACH_LOOK * state.reconcilers.links.observeTookMs;
    this.#debouncer = new Debouncer({ waitMs: PATIENCE_MS, restMs }, () => this.#look(), signal);
  }

  /** News of an interface, `deleted` or as it is now. */
  note(change: 'set' | 'deleted', link: Link): void {
    const wanted = this.#state.links.wanted(linkKey(link.name))?.link;
    if (wanted === undefined) return;
    const isWell = change === 'set' && link.carrier && hostDifferences(wanted, link).length === 0;
    if (isWell) this.#suspects.delete(link.name);
    else {
      this.#suspects.add(link.name);
      this.#debouncer.ring();
    }
  }

  /** News was lost. */
  lookAgain(): void {
    this.#state.reconcilers.links.recheck();
  }

  /** Pairs that are being made, or whose pods have gone meanwhile, are not looked at. */
  #look(): void {
    const { links, reconcilers } = this.#state;
    const held = reconcilers.links.actual();
    const suspects = [...this.#suspects].map(linkKey).filter((key) => links.wanted(key) !== undefined && held?.has(key) === true);
    this.#suspects.clear();
    if (suspects.length > 0) reconcilers.links.recheck();
  }
}
