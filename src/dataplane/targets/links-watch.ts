import { Debouncer } from '../../base/async/debouncer.ts';
import type { Link } from '../../netlink/links.ts';
import { hostDifferences, linkKey } from './links/link-entry.ts';
import { hostNameOf } from './links/pre-plugged-links.ts';
import type { NodeState } from './node-state.ts';

/**
 * Time that a program which deletes an interface may take for the related steps: to delete its namespace, its port or its lease, or to stop
 * ovs-vswitchd (ms).
 */
const PATIENCE_MS = 150;
/**
 * Pause after each check, as a multiple of its duration: a program that changes things all the time uses at most a fifth of the agent's
 * time.
 */
const PAUSE_FOR_EACH_CHECK = 4;

/** Current interfaces; undefined if there is none, or it cannot be read. */
interface InterfacesNow {
  readonly onNode: (name: string) => Link | undefined;
  /** Looks up a far end of a pre-plugged port. */
  readonly far: (name: string) => Link | undefined;
}

/**
 * Distinguishes foreign changes of host ends from the agent's own. The latter produce several events, of which only the last state counts.
 * When a pod's end goes down or is deleted, the host end shows it.
 */
export class LinksWatch {
  readonly #state: Pick<NodeState, 'links' | 'reconcilers'>;
  readonly #now: InterfacesNow;
  readonly #debouncer: Debouncer;
  /** Names of host ends that differ from the desired state according to events. */
  readonly #suspects = new Set<string>();

  constructor(state: Pick<NodeState, 'links' | 'reconcilers'>, now: InterfacesNow, signal: AbortSignal) {
    this.#state = state;
    this.#now = now;
    const restMs = (): number => PAUSE_FOR_EACH_CHECK * state.reconcilers.links.observeTookMs;
    this.#debouncer = new Debouncer({ waitMs: PATIENCE_MS, restMs }, () => this.#look(), signal);
  }

  /** Handles an event of an interface. @param change `deleted`, or `set` with the interface's current state */
  note(change: 'set' | 'deleted', link: Link): void {
    if (this.#isWell(link.name, change === 'set' ? link : undefined)) this.#suspects.delete(link.name);
    else {
      this.#suspects.add(link.name);
      this.#debouncer.ring();
    }
  }

  /** Handles an event of a pre-plugged port's far end: its promiscuity drops when the pod's interface on it goes down or is deleted. */
  noteFar(far: Link): void {
    const name = hostNameOf(far.name);
    if (far.promiscuity > 0 || this.#state.links.wanted(linkKey(name))?.link === undefined) return;
    this.#suspects.add(name);
    this.#debouncer.ring();
  }

  /** Reports whether the interface is as desired. True for interfaces that no pod has: the periodic check handles those. */
  #isWell(name: string, link: Link | undefined): boolean {
    const entry = this.#state.links.wanted(linkKey(name));
    const wanted = entry?.link ?? entry?.idle;
    if (wanted === undefined) return true;
    const farName = entry?.link?.farName;
    if (farName !== undefined && this.#now.far(farName)?.promiscuity === 0) return false;
    return link?.carrier === true && hostDifferences(wanted, link).length === 0;
  }

  /** Checks everything after events were lost. */
  checkAgain(): void {
    this.#state.reconcilers.links.recheck();
  }

  /** Checks suspects. Pairs that are being created are skipped: while many are, their events are late. */
  #look(): void {
    const { links } = this.#state.reconcilers;
    const held = links.actual();
    const suspects = [...this.#suspects].filter((name) => held?.has(linkKey(name)) === true);
    this.#suspects.clear();
    if (suspects.some((name) => !this.#isWell(name, this.#now.onNode(name)))) links.recheck();
  }
}
