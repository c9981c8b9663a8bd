import type { ServiceIntent } from '../../compile/service-intent.ts';
import type { ServiceChange } from '../service-changes.ts';
import { ipProtocols, type StaleConnections, type StaleOptions, wholeAddress } from './stale-connections.ts';

/**
 * Cluster addresses of which all ports come or go: one request deletes the connections to all of them, where OVS would walk its table for
 * each port. Other kinds of addresses may belong to a node, whose connections to other ports continue.
 */
export class WholeAddresses {
  readonly #transports: StaleOptions['transports'];
  /** Number of served ports, by address and protocol. */
  readonly #ports = new Map<string, number>();
  /** Addresses that are new, of Services for which more ports follow. */
  readonly #begun = new Map<string, Set<string>>();

  /** @param transports whose connections are deleted */
  constructor(transports: StaleOptions['transports']) {
    this.#transports = transports;
  }

  /** Notes a change. @param stale connections of it @returns the same, with one request for each address whose ports all come or go */
  changed({ key, ports, hasMore }: ServiceChange, stale: readonly StaleConnections[]): readonly StaleConnections[] {
    const begun = this.#begun.get(key) ?? new Set();
    for (const { is } of ports) for (const place of this.#placesOf(is)) if (!this.#ports.has(place)) begun.add(place);
    for (const { was, is } of ports) {
      for (const place of this.#placesOf(was)) this.#count(place, -1);
      for (const place of this.#placesOf(is)) this.#count(place, 1);
    }
    if (hasMore) this.#begun.set(key, begun);
    else this.#begun.delete(key);
    const whole = new Map<string, StaleConnections>();
    const others: StaleConnections[] = [];
    for (const each of stale) {
      const place = placeOf(each.ipProtocol, each.address.ip.text);
      const isWhole = each.address.kind === 'cluster' && (begun.has(place) || !this.#ports.has(place));
      if (isWhole && each.endpoint === undefined) whole.set(place, wholeAddress(each));
      else others.push(each);
    }
    return [...whole.values(), ...others];
  }

  #placesOf(intent: ServiceIntent | undefined): readonly string[] {
    if (intent === undefined || !this.#transports.includes(intent.transport)) return [];
    return intent.addresses.flatMap(({ kind, ip }) => (kind === 'cluster' ? [placeOf(ipProtocols[intent.transport], ip.text)] : []));
  }

  #count(place: string, more: 1 | -1): void {
    const count = (this.#ports.get(place) ?? 0) + more;
    if (count > 0) this.#ports.set(place, count);
    else this.#ports.delete(place);
  }
}

function placeOf(ipProtocol: number, ip: string): string {
  return `${ipProtocol} ${ip}`;
}
