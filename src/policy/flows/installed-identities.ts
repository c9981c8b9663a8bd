import type { Cidr } from '../../base/net/ip.ts';
import type { PeerClass, PeerIdentity } from '../matrix/matrix.ts';

/** That of an address that no term holds. */
export const noPeer: PeerClass = { id: 0, terms: [] };

/** The same for the same identity, and for no other. */
export function identityText({ coarse, fine }: PeerIdentity): string {
  return `${coarse.id} ${fine.id}`;
}

/** How many rows of addresses have each identity, and how long their prefixes are. */
export class HeldIdentities {
  readonly #holders = new Map<string, number>();
  readonly #lengths = new Map<number, number>();

  /** A row has come, gone or changed. */
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
