import { addressBits, type Family, parseCidr } from '../../base/net/ip.ts';
import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import type { Flow } from '../../dataplane/pipeline/flow.ts';
import type { NumberedRow } from '../../dataplane/pipeline/flow-pattern.ts';
import type { PeerIdentity, PolicyDirection } from '../matrix/matrix.ts';
import { addressRow, longestFirst } from './address-rows.ts';
import type { ContentNames } from './content.ts';
import { HeldIdentities } from './installed-identities.ts';
import { unnumberedCoarse } from './number-ranges.ts';
import type { IdentityNumbers } from './rows.ts';

type AddressOwners = Map<Owner, NumberedRow | readonly Flow[]>;

interface IdentifiedAddressesOptions {
  readonly direction: PolicyDirection;
  readonly names: Pick<ContentNames, 'address'>;
  readonly families: readonly Family[];
  /** Counts one use more of both parts. A part that is undefined has no number. */
  readonly enter: (identity: PeerIdentity) => { readonly [P in keyof IdentityNumbers]: number | undefined };
}

/** Identity of addresses without numbers: one part alone may be allowed more than the whole, so neither part is used. */
const withoutNumbers: IdentityNumbers = { coarse: unnumberedCoarse, fine: 0 };

/** Identity of each network, and the rows for it. */
export class IdentifiedAddresses {
  readonly #options: IdentifiedAddressesOptions;
  readonly held = new HeldIdentities();
  readonly #identities = new Map<string, PeerIdentity>();
  /** Networks without an identity on the bridge, because numbers are short. */
  readonly starved = new Set<string>();
  #addresses: AddressOwners = new Map();
  #networks: AddressOwners = new Map();

  constructor(options: IdentifiedAddressesOptions) {
    this.#options = options;
  }

  has(cidr: string): boolean {
    return this.#identities.has(cidr);
  }

  /** Sets the identity of a network. @returns the previous identity, to be released */
  identify(cidr: string, identity: PeerIdentity | undefined): readonly PeerIdentity[] {
    const { direction, names, families, enter } = this.#options;
    const before = this.#identities.get(cidr);
    const left = before ? [before] : [];
    this.starved.delete(cidr);
    const network = parseCidr(cidr);
    const owner = names.address(cidr);
    const wanted = network.prefixLength === addressBits(network.family) ? this.#addresses : this.#networks;
    const isWanted = identity !== undefined && families.includes(network.family);
    this.held.note(network, before, isWanted ? identity : undefined);
    if (!isWanted) {
      if (this.#identities.delete(cidr)) wanted.set(owner, []);
      return left;
    }
    this.#identities.set(cidr, identity);
    const { coarse, fine } = enter(identity);
    const isStarved = coarse === undefined || fine === undefined;
    if (isStarved) this.starved.add(cidr);
    wanted.set(owner, addressRow(direction, network, isStarved ? withoutNumbers : { coarse, fine }));
    return left;
  }

  /**
   * Returns the desired rows of the owners that have changed; an empty list if an owner wants none any more. Rows of networks apply to many
   * addresses, each of which may be an exception.
   */
  takeWanted(): { readonly addresses: AddressOwners; readonly networks: ReadonlyMap<Owner, NumberedRow | readonly Flow[]> } {
    const [addresses, networks] = [this.#addresses, longestFirst(this.#networks)];
    this.#addresses = new Map();
    this.#networks = new Map();
    return { addresses, networks };
  }
}
