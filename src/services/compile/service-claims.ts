import { type Ip, parseIp } from '../../base/net/ip.ts';
import { unpackEndpoints } from '../../base/net/packed-endpoints.ts';
import type { Transport } from '../../dataplane/pipeline/flow.ts';
import { nodePortAddress } from '../../dataplane/pipeline/well-known.ts';
import type { EndpointSlice } from '../../kubernetes/resources/endpoint-slice.ts';
import type { Service } from '../../kubernetes/resources/service.ts';
import { type Proxying, requestedAddresses, transports } from './intent.ts';

/**
 * Claim of a Service to a port of an address. `allocated`: the API server allocated it to this Service alone: its cluster addresses with
 * all their ports, and its node ports. `requested`: a user or a load balancer's controller wrote it. `yields`: excludes no other Service,
 * but is itself excluded by an allocated claim: a request at one address of a node yields to the node port of that number.
 */
interface ServiceClaim {
  readonly ip: string;
  /** `PROTOCOL PORT`; absent: every port. */
  readonly port?: string;
  readonly right: 'allocated' | 'requested' | 'yields';
}

/** One port of one address. */
interface AddressSpot {
  readonly ip: string;
  /** `PROTOCOL PORT` */
  readonly port: string;
}

/** Holder of claims. Claims of the older one come first, then by name. */
interface Claimant {
  readonly name: string;
  /** RFC 3339; absent: treated as younger than all others. */
  readonly createdAt?: string;
}

/** Claims of one claimant to one address. */
interface Holding extends Claimant {
  readonly claims: readonly HeldClaim[];
}

type HeldClaim = Omit<ServiceClaim, 'ip'>;

/** Claims shared by most claimants, of which there are many. */
const wholeAddress: Readonly<Record<ServiceClaim['right'], readonly HeldClaim[]>> = {
  allocated: [{ right: 'allocated' }],
  requested: [{ right: 'requested' }],
  yields: [{ right: 'yields' }],
};

const noServices: ReadonlySet<string> = new Set();

/** Service of the API server; clients without Services reach it at its endpoints. */
const apiServerService = 'default/kubernetes';

/**
 * Returns the claims of a Service, whether or not this node serves it.
 *
 * @param isNodes reports whether an address is a node's: on those, every node port is taken
 */
export function claimsOf(
  service: Service,
  slices: readonly EndpointSlice[],
  { config, isNodes }: Pick<Proxying, 'config'> & { readonly isNodes: (ip: Ip) => boolean },
): readonly ServiceClaim[] {
  // A node's address is never a valid cluster address: it is not served as one, and excludes no other Service.
  const own = service.clusterIps.filter((ip) => !isNodes(parseIp(ip)));
  const claims: ServiceClaim[] = own.map((ip) => ({ ip, right: 'allocated' }));
  if (`${service.namespace}/${service.name}` === apiServerService) claims.push(...endpointClaims(slices));
  // Most have only their cluster address, and there are many.
  const { externalIps, loadBalancerIngress, ports } = service;
  if (externalIps.length + loadBalancerIngress.length === 0 && ports.every(({ nodePort }) => nodePort === undefined)) return claims;
  for (const { kind, ip, port, transport } of requestedAddresses(service, config)) {
    const at = portKey(transport, port);
    if (kind === 'nodePort') claims.push({ ip: ip.text, port: at, right: 'allocated' });
    else
      claims.push(
        ...spotsOf(ip, at, isNodes).map((spot, index) => ({ ...spot, right: index === 0 ? ('requested' as const) : ('yields' as const) })),
      );
  }
  return claims;
}

/**
 * Returns the spots where one address of a Service may conflict with another claim: the address itself first, then on a node's address that
 * of all node ports.
 */
export function spotsOf(ip: Ip, port: string, isNodes: (ip: Ip) => boolean): readonly AddressSpot[] {
  const there = { ip: ip.text, port };
  return isNodes(ip) ? [there, { ip: nodePortAddress[ip.family].text, port }] : [there];
}

export function portKey(transport: Transport, port: number): string {
  return `${transport} ${port}`;
}

function endpointClaims(slices: readonly EndpointSlice[]): readonly ServiceClaim[] {
  return slices.flatMap(({ endpoints, ports }) =>
    unpackEndpoints(endpoints).flatMap(({ addresses: [address] }) =>
      address === undefined
        ? []
        : ports.flatMap(({ port, protocol }): readonly ServiceClaim[] =>
            port === undefined ? [] : [{ ip: parseIp(address).text, port: portKey(transports[protocol], port), right: 'allocated' }],
          ),
    ),
  );
}

/** Holders of addresses, over all Services: one address and port belongs to one Service, regardless of the order of events. */
export class ServiceClaims {
  /**
   * Holders by address. Most addresses have one holder, and most holders one address: there are many of these, and a map or a set of one is
   * large.
   */
  readonly #byIp = new Map<string, Holding | Map<string, Holding>>();
  readonly #ipsOf = new Map<string, string | ReadonlySet<string>>();

  /**
   * Replaces the claims of a claimant; an empty list removes them.
   *
   * @returns the names of others that claim an address for which these claims have changed
   */
  note(claimant: Claimant, claims: readonly ServiceClaim[]): ReadonlySet<string> {
    const [only] = claims;
    if (only && claims.length === 1 && this.#isFirst(claimant, only)) return noServices;
    const byIp = Map.groupBy(claims, ({ ip }) => ip);
    const concerned = new Set<string>();
    const had = this.#ipsOf.get(claimant.name);
    for (const ip of new Set([...(typeof had === 'string' ? [had] : (had ?? [])), ...byIp.keys()])) {
      const [was, claimed] = [this.#holdingOf(claimant.name, ip), byIp.get(ip)];
      const is = claimed && { ...claimant, claims: heldOf(claimed) };
      if (was && is && textOf(was) === textOf(is)) continue;
      for (const { name } of this.#holdersOf(ip)) if (name !== claimant.name) concerned.add(name);
      this.#set(ip, claimant.name, is);
    }
    const [first, ...others] = byIp.keys();
    if (first === undefined) this.#ipsOf.delete(claimant.name);
    else this.#ipsOf.set(claimant.name, others.length === 0 ? first : new Set(byIp.keys()));
    return concerned;
  }

  /**
   * Records a sole claim to an address that no other claimant has: the most frequent case, and there are many at a start. @returns whether
   * it was that, and is recorded
   */
  #isFirst({ name, createdAt }: Claimant, claim: ServiceClaim): boolean {
    if (this.#ipsOf.has(name) || this.#byIp.has(claim.ip)) return false;
    this.#byIp.set(claim.ip, { name, ...(createdAt === undefined ? {} : { createdAt }), claims: heldOf([claim]) });
    this.#ipsOf.set(name, claim.ip);
    return true;
  }

  #holdersOf(ip: string): Iterable<Holding> {
    const holders = this.#byIp.get(ip);
    if (holders === undefined) return [];
    return holders instanceof Map ? holders.values() : [holders];
  }

  #holdingOf(name: string, ip: string): Holding | undefined {
    const holders = this.#byIp.get(ip);
    if (holders instanceof Map) return holders.get(name);
    return holders?.name === name ? holders : undefined;
  }

  /** @param holding undefined: none any more */
  #set(ip: string, name: string, holding: Holding | undefined): void {
    const holders = this.#byIp.get(ip);
    if (holders instanceof Map) {
      if (holding) holders.set(name, holding);
      else holders.delete(name);
      if (holders.size === 0) this.#byIp.delete(ip);
    } else if (holding === undefined) {
      if (holders?.name === name) this.#byIp.delete(ip);
    } else if (holders === undefined || holders.name === name) this.#byIp.set(ip, holding);
    else
      this.#byIp.set(
        ip,
        new Map([
          [holders.name, holders],
          [name, holding],
        ]),
      );
  }

  /** Returns the claimant that has one of these spots before `name`, as text for operators. */
  holderBefore(name: string, spots: readonly AddressSpot[]): string | undefined {
    for (const spot of spots) {
      const holders = this.#byIp.get(spot.ip);
      if (holders === undefined || (!(holders instanceof Map) && holders.name === name)) continue; // no other claimant
      const first = this.#firstAt(spot);
      if (first !== undefined && first !== name) return `Service ${first}`;
    }
    return undefined;
  }

  #firstAt({ ip, port }: AddressSpot): string | undefined {
    const ranked = [...this.#holdersOf(ip)].flatMap((holding) => {
      const rank = rankOf(holding, port);
      return rank === undefined ? [] : [{ rank, name: holding.name }];
    });
    return ranked.reduce<(typeof ranked)[number] | undefined>((first, each) => (first && first.rank < each.rank ? first : each), undefined)
      ?.name;
  }
}

/** Number of claims of one address above which they are looked up by port: a Service may have thousands of ports there. */
const FEW_CLAIMS = 8;
const indexes = new WeakMap<readonly HeldClaim[], ReadonlyMap<string | undefined, readonly HeldClaim[]>>();

function claimsAt(claims: readonly HeldClaim[], port: string): readonly HeldClaim[] {
  const index = indexes.get(claims) ?? Map.groupBy(claims, (claim) => claim.port);
  indexes.set(claims, index);
  return [...(index.get(undefined) ?? []), ...(index.get(port) ?? [])];
}

/** Sort key of claimants of one address and port: allocated before requested, older before younger, then by name. */
function rankOf({ name, createdAt = '~', claims }: Holding, port: string): string | undefined {
  const there =
    claims.length <= FEW_CLAIMS ? claims.filter((claim) => claim.port === undefined || claim.port === port) : claimsAt(claims, port);
  const mine = there.filter(({ right }) => right !== 'yields');
  if (mine.length === 0) return undefined;
  return `${mine.some(({ right }) => right === 'allocated') ? 0 : 1} ${createdAt} ${name}`;
}

function heldOf(claims: readonly ServiceClaim[]): readonly HeldClaim[] {
  const [first] = claims;
  if (first && claims.length === 1 && first.port === undefined) return wholeAddress[first.right];
  return claims.map(({ ip: _, ...held }) => held);
}

function textOf({ createdAt, claims }: Holding): string {
  return JSON.stringify([createdAt, claims]);
}
