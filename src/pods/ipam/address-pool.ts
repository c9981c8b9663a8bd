import { SeineError } from '../../base/errors/seine-error.ts';
import { addressBits, cidrAddress, cidrContains, type Ip } from '../../base/net/ip.ts';
import type { Pool } from './lease.ts';

/** Of a larger pool only the first 2^32 addresses are lent, so that an offset is a plain number; any address may be asked for by name. */
const offsetsMax = 2 ** 32;

type ClaimResult = 'claimed' | 'taken' | 'reserved' | 'outside';

/** The addresses of one family: which are taken, and which comes next. */
export class AddressPool {
  readonly pool: Pool;
  /** How many can be lent. */
  readonly size: number;
  /** Canonical texts. */
  readonly #taken = new Set<string>();
  readonly #reserved: ReadonlySet<string>;
  readonly #offsets: number;
  #cursor = 0;

  /** @throws SeineError `INVALID_INPUT` if the range has no room for a pod, or the gateway is not in it */
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
   * The next free address, searching on from the last one given: a freed address comes back as late as possible, so
   * that neighbour tables, conntrack and clients have forgotten its last owner. Undefined if all are taken.
   */
  take(): Ip | undefined {
    // Each step that does not return passes a taken or a reserved address, so this ends after at most as many steps as there are of those.
    const steps = Math.min(this.#offsets, this.#taken.size + this.#reserved.size + 1);
    for (let step = 0; step < steps; step++) {
      this.#cursor = (this.#cursor + 1) % this.#offsets;
      const ip = cidrAddress(this.pool.cidr, BigInt(this.#cursor));
      if (this.claim(ip) === 'claimed') return ip;
    }
    return undefined;
  }

  /** Takes a certain address. */
  claim(ip: Ip): ClaimResult {
    if (!cidrContains(this.pool.cidr, ip)) return 'outside';
    if (this.#reserved.has(ip.text)) return 'reserved';
    if (this.#taken.has(ip.text)) return 'taken';
    this.#taken.add(ip.text);
    return 'claimed';
  }

  /** Lets the search go on after `ip`. */
  moveCursor(ip: Ip): void {
    const offset = ip.value - this.pool.cidr.network.value;
    if (cidrContains(this.pool.cidr, ip) && offset < BigInt(this.#offsets)) this.#cursor = Number(offset);
  }

  /** Where the search stands: the address given last, or the network's own before the first. */
  get cursor(): Ip {
    return cidrAddress(this.pool.cidr, BigInt(this.#cursor));
  }

  /** Keeps an address that is in use already, wherever it came from; nothing to do if it is of no concern to this pool. */
  occupy(ip: Ip): void {
    if (cidrContains(this.pool.cidr, ip) && !this.#reserved.has(ip.text)) this.#taken.add(ip.text);
  }

  free(ip: Ip): void {
    this.#taken.delete(ip.text);
  }
}

/**
 * The gateway; in IPv4 the network and broadcast addresses; in IPv6 the subnet-router anycast address, which is the network's
 * own (RFC 4291, 2.6.1).
 */
function reservedAddresses({ cidr, gateway }: Pool, hostBits: number): Ip[] {
  const last = cidr.family === 'ipv4' ? [cidrAddress(cidr, (1n << BigInt(hostBits)) - 1n)] : [];
  return [cidr.network, gateway, ...last];
}
