import { Debouncer } from '../../base/async/debouncer.ts';
import type { Link } from '../../netlink/links.ts';
import { hostDifferences, linkKey } from './links/link-entry.ts';
import { hostNameOf } from './links/pre-plugged-links.ts';
import type { NodeState } from './node-state.ts';

/**
 * How long a program that deletes an interface may take to do what goes with it: delete its namespace, its port or its lease, or
 * end ovs-vswitchd (ms).
 */
const PATIENCE_MS = 150;
/** A program that changes things all the time gets a fifth of the agent's time and no more. */
const REST_FOR_EACH_LOOK = 4;

/** How an interface is at this moment; undefined if there is none, or it is not to be seen. */
interface InterfacesNow {
  readonly onNode: (name: string) => Link | undefined;
  /** Among the far ends of standing ports. */
  readonly far: (name: string) => Link | undefined;
}

/**
 * Tells foreign changes of the node's ends from our own, which come as a row of states, of which only the last one counts. A pod's end that
 * goes down, or away, is told by the node's end.
 */
export class LinksWatch {
  readonly #state: Pick<NodeState, 'links' | 'reconcilers'>;
  readonly #now: InterfacesNow;
  readonly #debouncer: Debouncer;
  /** Names of ends that are not as wanted, as far as was heard. */
  readonly #suspects = new Set<string>();

  constructor(state: Pick<NodeState, 'links' | 'reconcilers'>, now: InterfacesNow, signal: AbortSignal) {
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

  /** News of a standing port's far end: what a pod has over it goes down, or away, with its promiscuity. */
  noteFar(far: Link): void {
    const name = hostNameOf(far.name);
    if (far.promiscuity > 0 || this.#state.links.wanted(linkKey(name))?.link === undefined) return;
    this.#suspects.add(name);
    this.#debouncer.ring();
  }

  /** Also what no pod has: that is the sweep's affair. */
  #isWell(name: string, link: Link | undefined): boolean {
    const entry = this.#state.links.wanted(linkKey(name));
    const wanted = entry?.link ?? entry?.idle;
    if (wanted === undefined) return true;
    const farName = entry?.link?.farName;
    if (farName !== undefined && this.#now.far(farName)?.promiscuity === 0) return false;
    return link?.carrier === true && hostDifferences(wanted, link).length === 0;
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
    if (suspects.some((name) => !this.#isWell(name, this.#now.onNode(name)))) links.recheck();
  }
}
