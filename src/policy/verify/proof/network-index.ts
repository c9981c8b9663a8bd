import { addressBits, type Cidr, type Ip } from '../../../base/net/ip.ts';

/**
 * Index of networks by prefix length: finds those that contain an address without scanning all, because there are few lengths and many
 * networks.
 */
export class NetworkIndex<T> {
  readonly #byLength = new Map<string, { readonly shift: bigint; readonly networks: Map<bigint, Set<T>> }>();

  add({ family, network, prefixLength }: Cidr, value: T): void {
    const name = `${family} ${prefixLength}`;
    const known = this.#byLength.get(name) ?? { shift: BigInt(addressBits(family) - prefixLength), networks: new Map<bigint, Set<T>>() };
    this.#byLength.set(name, known);
    const key = network.value >> known.shift;
    known.networks.set(key, (known.networks.get(key) ?? new Set()).add(value));
  }

  *holding({ family, value }: Ip): Generator<T> {
    for (const [name, { shift, networks }] of this.#byLength) if (name.startsWith(family)) yield* networks.get(value >> shift) ?? [];
  }
}
