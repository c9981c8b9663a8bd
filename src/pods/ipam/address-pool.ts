import { SeineError } from '../../base/errors/seine-error.ts';
import { addressBits, cidrAddress, cidrContains, type Ip } from '../../base/net/ip.ts';
import type { Pool } from './lease.ts';

/**
 * Maximum number of allocatable addresses of a pool, so that an offset is a plain number. Addresses beyond it can be requested explicitly.
 */
const offsetsMax = 2 ** 32;

type ClaimResult = 'claimed' | 'taken' | 'reserved' | 'outside';

/** Addresses of one family: those in use, and the next one to allocate. */
export class AddressPool {
  readonly pool: Pool;
  /** Number of addresses that can be allocated. */
  readonly size: number;
  /** Addresses in use, canonical text. */
  readonly #taken = new Set<string>();
  readonly #reserved: ReadonlySet<string>;
  readonly #offsets: number;
  #cursor = 0;

  /** Creates a pool. @throws SeineError `INVALID_INPUT` if the range has no room for a pod, or the gateway is not in it */
  constructor(pool: Pool) {
    const { cidr, gateway } = pool;
    const hostBits = addressBits(cidr.family) - cidr.prefixLength;
    if (hostBits < 2) throw new SeineError('INVALID_INPUT', `pod CIDR ${cidr.text} is too small: it needs at least two bits for hosts`);
    if (!cidrContains(cidr, gateway)) throw new SeineError('INVALID_INPUT', `gateway ${gateway.text} is not in pod CIDR ${cidr.text}`);
    this.pool = pool;
    this.#reserved = new Set(reservedAddresses(pool, hostBits).map(({ text }) => text));
    this.#offsets = hostBits > 32 ? offsetsMax : 2 ** hostBits;
    this.size = this.#offsets - this.#reserved.size;
  }

  get taken(): number {
    return this.#taken.size;
  }

  /**
   * Returns the next free address after the last one allocated, or undefined if all are in use. A released address is thus reused as late
   * as possible, so that neighbour tables, conntrack and clients have forgotten its previous owner.
   */
  take(): Ip | undefined {
    // Each step that does not return skips a used or reserved address, so the loop ends after at most as many steps as there are of those.
    const steps = Math.min(this.#offsets, this.#taken.size + this.#reserved.size + 1);
    for (let step = 0; step < steps; step++) {
      this.#cursor = (this.#cursor + 1) % this.#offsets;
      const ip = cidrAddress(this.pool.cidr, BigInt(this.#cursor));
      if (this.claim(ip) === 'claimed') return ip;
    }
    return undefined;
  }

  /** Takes the given address. */
  claim(ip: Ip): ClaimResult {
    if (!cidrContains(this.pool.cidr, ip)) return 'outside';
    if (this.#reserved.has(ip.text)) return 'reserved';
    if (this.#taken.has(ip.text)) return 'taken';
    this.#taken.add(ip.text);
    return 'claimed';
  }

  /** Continues the search after `ip`. */
  moveCursor(ip: Ip): void {
    const offset = ip.value - this.pool.cidr.network.value;
    if (cidrContains(this.pool.cidr, ip) && offset < BigInt(this.#offsets)) this.#cursor = Number(offset);
  }

  /** Position of the search: the address allocated last, or that of the network before the first. */
  get cursor(): Ip {
    return cidrAddress(this.pool.cidr, BigInt(this.#cursor));
  }

  /** Marks an address as used, whatever its origin; does nothing for addresses outside the pool. */
  occupy(ip: Ip): void {
    if (cidrContains(this.pool.cidr, ip) && !this.#reserved.has(ip.text)) this.#taken.add(ip.text);
  }

  free(ip: Ip): void {
    this.#taken.delete(ip.text);
  }
}

/**
 * Returns the gateway; in IPv4 also the network and broadcast addresses; in IPv6 the subnet-router anycast address, which is that of the
 * network (RFC 4291, 2.6.1).
 */
function reservedAddresses({ cidr, gateway }: Pool, hostBits: number): Ip[] {
  const last = cidr.family === 'ipv4' ? [cidrAddress(cidr, (1n << BigInt(hostBits)) - 1n)] : [];
  return [cidr.network, gateway, ...last];
}
