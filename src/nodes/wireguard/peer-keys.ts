import { SeineError } from '../../base/errors/seine-error.ts';
import type { Peer } from '../../kubernetes/resources/peer-source.ts';
import type { WireGuardPublicKey } from '../../netlink/wireguard/wireguard-key.ts';
import { type AnnouncedKeys, announcedKeys, keyAt } from './rotation.ts';

/** Properties of a peer by which its key is accepted. */
type KeyedPeer = Pick<Peer, 'name' | 'since' | 'wireGuardKey' | 'wireGuardNextKey'>;

interface KeyClaim {
  readonly since: string;
  readonly keys: AnnouncedKeys;
}

/**
 * Public keys of peers, as their Node objects announce them. If two Nodes announce one key, the node that joined first has it, on every
 * node and in any order of events: a Node object could otherwise redirect the packets of another node.
 */
export class PeerKeys {
  readonly #isOwn: (key: WireGuardPublicKey) => boolean;
  readonly #claims = new Map<string, KeyClaim>();
  readonly #faults = new Map<string, string>();
  readonly #namesOf = new Map<WireGuardPublicKey, Set<string>>();

  /** @param isOwn reports whether a key is one of this node's: no peer has it */
  constructor(isOwn: (key: WireGuardPublicKey) => boolean) {
    this.#isOwn = isOwn;
  }

  /** Replaces what a node announces; undefined: it is gone. @returns other nodes whose keys may be decided differently now */
  set(name: string, peer: KeyedPeer | undefined): ReadonlySet<string> {
    const concerned = new Set<string>();
    this.#forget(name, concerned);
    this.#faults.delete(name);
    if (peer?.wireGuardKey === undefined) return concerned;
    try {
      const keys = announcedKeys(peer.wireGuardKey, peer.wireGuardNextKey);
      this.#claims.set(name, { since: peer.since ?? '', keys });
      for (const key of keysIn(keys)) {
        const names = this.#namesOf.get(key) ?? new Set();
        for (const other of names) concerned.add(other);
        this.#namesOf.set(key, names.add(name));
      }
    } catch (thrown) {
      this.#faults.set(name, SeineError.from(thrown, 'WireGuard key').rawMessage);
    }
    return concerned;
  }

  /** Returns the key of a peer at this time (Unix, ms); undefined if it announces none, or one that is not accepted. */
  keyOf(name: string, now: number): WireGuardPublicKey | undefined {
    const claim = this.#claims.get(name);
    if (claim === undefined) return undefined;
    const key = keyAt(claim.keys, now);
    return this.#rivalOf(name, key) === undefined && !this.#isOwn(key) ? key : undefined;
  }

  /** Returns the reason for not accepting what a peer announces. */
  objection(name: string, now: number): string | undefined {
    const fault = this.#faults.get(name);
    if (fault !== undefined) return `WireGuard key: ${fault}`;
    const claim = this.#claims.get(name);
    const key = claim && keyAt(claim.keys, now);
    if (key === undefined) return undefined;
    if (this.#isOwn(key)) return 'WireGuard key: it is the key of this node';
    const rival = this.#rivalOf(name, key);
    return rival === undefined ? undefined : `WireGuard key: node ${rival} has it, which was there before`;
  }

  /** Returns the node that has a key at this time (Unix, ms). */
  nodeOf(key: WireGuardPublicKey, now: number): string | undefined {
    for (const name of this.#namesOf.get(key) ?? []) if (this.keyOf(name, now) === key) return name;
    return undefined;
  }

  /** Reports whether no node announces a key. */
  isFree(key: WireGuardPublicKey): boolean {
    return !this.#namesOf.has(key);
  }

  /** Returns the next time (Unix, ms) at which the key of a peer changes, and undefined if none does. */
  nextChange(now: number): number | undefined {
    let first: number | undefined;
    for (const { keys } of this.#claims.values())
      if (keys.next && keys.next.at > now && (first === undefined || keys.next.at < first)) first = keys.next.at;
    return first;
  }

  /** Returns the peers whose key changes after `from` and not after `until` (Unix, ms). */
  changedBetween(from: number, until: number): readonly string[] {
    return [...this.#claims].flatMap(
      ([
        name,
        {
          keys: { next },
        },
      ]) => (next && next.at > from && next.at <= until ? [name] : []),
    );
  }

  /** Returns the node that joined before this one and has the key. */
  #rivalOf(name: string, key: WireGuardPublicKey): string | undefined {
    const own = this.#claims.get(name);
    for (const other of this.#namesOf.get(key) ?? []) {
      const claim = this.#claims.get(other);
      if (other !== name && own && claim && isEarlier(other, claim.since, name, own.since)) return other;
    }
    return undefined;
  }

  #forget(name: string, concerned: Set<string>): void {
    const before = this.#claims.get(name);
    if (before === undefined) return;
    this.#claims.delete(name);
    for (const key of keysIn(before.keys)) {
      const names = this.#namesOf.get(key);
      names?.delete(name);
      for (const other of names ?? []) concerned.add(other);
      if (names?.size === 0) this.#namesOf.delete(key);
    }
  }
}

function keysIn({ current, next }: AnnouncedKeys): ReadonlySet<WireGuardPublicKey> {
  return new Set([current, ...(next ? [next.key] : [])]);
}

/** An unknown time counts as the latest. */
function isEarlier(a: string, aSince: string, b: string, bSince: string): boolean {
  if (aSince === bSince) return a < b;
  return aSince !== '' && (bSince === '' || aSince < bSince);
}
