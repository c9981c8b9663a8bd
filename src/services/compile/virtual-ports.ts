import type { Ip } from '../../base/net/ip.ts';
import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import { fnv1aOf } from '../../dataplane/pipeline/fnv-1a.ts';
import { nodePortAddress } from '../../dataplane/pipeline/well-known.ts';
import { isVirtual, type ServiceAddress, type ServiceIntent } from './service-intent.ts';

/** First port that is allocated here: above the API server's default range of node ports, 30000 to 32767. */
const FIRST_PORT = 32_768;
const LAST_PORT = 65_535;

interface VirtualPortsOptions {
  /** Reports whether an address is the node's own. */
  readonly isOwn: (ip: Ip) => boolean;
  /** Reports whether a port of the virtual address is the node port of any Service. */
  readonly isNodePort: (intent: ServiceIntent, port: number) => boolean;
}

/**
 * Ports of the node ports' virtual address for external addresses that are the node's own. nftables translates such an address, for no
 * route can take it from the node; on the bridge its virtual port has its kind, and so its traffic policy and source ranges.
 *
 * The port follows from the owner's name, so that a restarted agent chooses the same one.
 */
export class VirtualPorts {
  readonly #options: VirtualPortsOptions;
  /** Owner and kind by `FAMILY TRANSPORT PORT`. */
  readonly #holders = new Map<string, string>();
  readonly #placesOf = new Map<Owner, ReadonlySet<string>>();

  constructor(options: VirtualPortsOptions) {
    this.#options = options;
  }

  /**
   * Returns the intent with a virtual address for each kind of external address that needs one. Releases addresses of the owner that are no
   * longer needed.
   */
  add(owner: Owner, intent: ServiceIntent): ServiceIntent {
    const added: ServiceAddress[] = [];
    const places = new Set<string>();
    const had = this.#placesOf.get(owner) ?? [];
    for (const place of had) this.#holders.delete(place);
    for (const kind of ['external', 'loadBalancer'] as const) {
      if (!this.#needsOne(intent, kind)) continue;
      const port = this.#choose(intent, `${owner}#${kind}`);
      if (port === undefined) continue;
      const place = placeOf(intent, port);
      this.#holders.set(place, `${owner}#${kind}`);
      places.add(place);
      added.push({ kind, ip: nodePortAddress[intent.family], port });
    }
    if (places.size === 0) this.#placesOf.delete(owner);
    else this.#placesOf.set(owner, places);
    return added.length === 0 ? intent : { ...intent, addresses: [...intent.addresses, ...added] };
  }

  release(owner: Owner): void {
    for (const place of this.#placesOf.get(owner) ?? []) this.#holders.delete(place);
    this.#placesOf.delete(owner);
  }

  /** Reports whether a kind needs a virtual address: not if the node port, or else the cluster address, treats clients in the same way. */
  #needsOne({ addresses, sourceRanges, internalPolicy, externalPolicy }: ServiceIntent, kind: 'external' | 'loadBalancer'): boolean {
    if (!addresses.some((address) => address.kind === kind && this.#options.isOwn(address.ip))) return false;
    if (kind === 'loadBalancer' && sourceRanges.length > 0) return true;
    const hasNodePort = addresses.some((address) => address.kind === 'nodePort');
    return !hasNodePort && (internalPolicy === 'Local' || externalPolicy === 'Local');
  }

  #choose(intent: ServiceIntent, holder: string): number | undefined {
    const count = LAST_PORT - FIRST_PORT + 1;
    const start = fnv1aOf(holder) % count;
    for (let step = 0; step < count; step++) {
      const port = FIRST_PORT + ((start + step) % count);
      if (!this.#holders.has(placeOf(intent, port)) && !this.#options.isNodePort(intent, port)) return port;
    }
    return undefined;
  }
}

function placeOf({ family, transport }: Pick<ServiceIntent, 'family' | 'transport'>, port: number): string {
  return `${family} ${transport} ${port}`;
}

/** Returns the address to which nftables translates an own external address; undefined if it must not be translated. */
export function translationOf({ addresses, sourceRanges }: ServiceIntent, { kind }: ServiceAddress): ServiceAddress | undefined {
  const virtual = addresses.find((address) => address.kind === kind && isVirtual(address));
  // The bridge could no longer recognise the load balancer's address, and so its source ranges.
  if (virtual !== undefined || (kind === 'loadBalancer' && sourceRanges.length > 0)) return virtual;
  return addresses.find((address) => address.kind === 'nodePort') ?? addresses.find((address) => address.kind === 'cluster');
}
