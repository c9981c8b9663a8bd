import type { Cidr } from '../../base/net/ip.ts';
import { type PeerClass, type PeerIdentity, unnumbered } from '../matrix/matrix.ts';

/** Class of addresses that no term matches. */
export const noPeer: PeerClass = { id: 0, terms: [] };

/** Text of an identity: equal for equal identities only. */
export function identityText({ coarse, fine }: PeerIdentity): string {
  return `${coarse.id} ${fine.id}`;
}

/** Number of address rows for each identity, and the lengths of their prefixes. */
export class HeldIdentities {
  readonly #holders = new Map<string, number>();
  readonly #lengths = new Map<number, number>();

  /** Notes that a row was added, removed or changed. */
  note({ prefixLength }: Cidr, before: PeerIdentity | undefined, after: PeerIdentity | undefined): void {
    if (before) count(this.#holders, identityText(before), -1);
    if (after) count(this.#holders, identityText(after), 1);
    if (!before !== !after) count(this.#lengths, prefixLength, after ? 1 : -1);
  }

  holdersOf(identity: PeerIdentity): number {
    return this.#holders.get(identityText(identity)) ?? 0;
  }

  prefixLengths(): Iterable<number> {
    return this.#lengths.keys();
  }
}

function count<K>(of: Map<K, number>, key: K, by: 1 | -1): void {
  const number = (of.get(key) ?? 0) + by;
  if (number === 0) of.delete(key);
  else of.set(key, number);
}

/** Identities that may have rows without an address. */
export const reservedPeers: ReadonlyMap<number, PeerClass> = new Map([noPeer, unnumbered].map((each) => [each.id, each]));
