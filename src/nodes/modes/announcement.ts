import { type Node, peerModesValues } from '../../kubernetes/resources/node.ts';
import type { ModeSettings } from './peer-mode.ts';

/** Time until every peer that is connected to the API server has read the announcement and accepts direct packets (ms). */
const READ_WITHIN_MS = 2_000;
/** Time for which a node that has withdrawn its announcement still accepts direct packets: peers change to the tunnel meanwhile (ms). */
const ACCEPTED_AFTER_MS = 300_000;

interface AnnouncementOptions {
  readonly encapMode: ModeSettings['encapMode'];
  /** Returns this node's object, or undefined while unknown. */
  readonly node: () => Node | undefined;
  /** Reports whether Node objects are those of the API server: until then they are the last known ones, from disk. */
  readonly isSynced: () => boolean;
  /** Returns a monotonic time (ms). */
  readonly now: () => number;
}

/**
 * Announcement of this node that it accepts packets of pods without a tunnel, and may send them. Peers accept such packets only from nodes
 * that announce them, and send them only to these.
 *
 * A node that returns to the tunnel announces that first (`tunnel`), and continues to accept direct packets for some minutes; then it
 * removes the annotation. All state is in the Node object, so a restart changes nothing.
 */
export class Announcement {
  readonly #options: AnnouncementOptions;
  /** Value last found, and since when; undefined before the first check. */
  #found: { readonly value: string | undefined; readonly sinceMs: number } | undefined;
  /** Once true, a new value is one that peers have not read yet. */
  #isCurrent = false;

  constructor(options: AnnouncementOptions) {
    this.#options = options;
    this.check();
  }

  /** Reads the Node object. Call after each change of it. */
  check(): void {
    const node = this.#options.node();
    if (!node) return;
    const value = node.peerModes;
    // Peers have read what a previous agent announced. An object from disk may be older than that.
    const sinceMs = this.#isCurrent ? this.#options.now() : Number.NEGATIVE_INFINITY;
    if (!this.#found || this.#found.value !== value)
      this.#found = { value, sinceMs: value === peerModesValues.tunnel ? this.#options.now() : sinceMs };
    this.#isCurrent ||= this.#options.isSynced();
  }

  /** Notifies that this agent announces `value` from here on. */
  begin(): void {
    this.#isCurrent = true;
  }

  /** Reports whether peers accept direct packets of this node. */
  get isExpected(): boolean {
    return this.#isDirect && this.#found?.value === peerModesValues.direct && this.#ageMs >= READ_WITHIN_MS;
  }

  /** Reports whether this node accepts direct packets. */
  get accepts(): boolean {
    return this.#isDirect || this.#found?.value === peerModesValues.direct || this.#found?.value === peerModesValues.tunnel;
  }

  /** Time until a property changes without a change of the Node object (ms); undefined if none will. */
  get changesInMs(): number | undefined {
    const waits = this.#found?.value === peerModesValues.tunnel ? ACCEPTED_AFTER_MS : READ_WITHIN_MS;
    const restMs = waits - this.#ageMs;
    return this.#found?.value === undefined || restMs <= 0 ? undefined : restMs;
  }

  /** Desired value of the annotation; undefined if the Node shall have none. */
  get value(): string | undefined {
    if (this.#isDirect) return peerModesValues.direct;
    if (this.#found?.value === peerModesValues.direct) return peerModesValues.tunnel;
    return this.#found?.value === peerModesValues.tunnel && this.#ageMs < ACCEPTED_AFTER_MS ? peerModesValues.tunnel : undefined;
  }

  get #isDirect(): boolean {
    return this.#options.encapMode !== 'encap';
  }

  get #ageMs(): number {
    return this.#options.now() - (this.#found?.sinceMs ?? this.#options.now());
  }
}
