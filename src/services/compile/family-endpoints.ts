import { type Family, ipToBytes } from '../../base/net/ip.ts';
import { fnv1a } from '../../dataplane/pipeline/fnv-1a.ts';
import type { EndpointSlice } from '../../kubernetes/resources/endpoint-slice.ts';
import type { ServicePort } from '../../kubernetes/resources/service.ts';
import { chooseEndpoints, type NodeLocation } from './endpoint-choice.ts';
import { candidatesOf, portNumberIn } from './endpoint-lists.ts';
import { byAddress, type ServiceEndpoint } from './service-intent.ts';

interface FamilyEndpointsOptions {
  readonly family: Family;
  readonly publishNotReady: boolean;
  /** Location of the clients. */
  readonly place: NodeLocation;
  /** Maximum number of endpoints of a port. */
  readonly most: number;
}

interface PortEndpoints {
  readonly cluster: readonly ServiceEndpoint[];
  readonly local: readonly ServiceEndpoint[];
  readonly anyEndpoint: boolean;
  /** Addresses that no endpoint of a cluster can have. */
  readonly refused: readonly string[];
  /** Number of endpoints, if it exceeds the maximum. */
  readonly tooMany?: number;
}

const none: PortEndpoints = { cluster: [], local: [], anyEndpoint: false, refused: [] };

/**
 * Endpoints of each port of a Service in one family. Ports that have one number in all slices that have them share the choice of endpoints:
 * it is made once for each set of slices, and not for each of thousands of ports.
 */
export class FamilyEndpoints {
  readonly #slices: readonly EndpointSlice[];
  readonly #options: FamilyEndpointsOptions;
  /** Chosen endpoints, by the slices that have the port. */
  readonly #chosen = new Map<string, PortEndpoints>();

  /** @param slices of the Service; those of other families are skipped */
  constructor(slices: readonly EndpointSlice[], options: FamilyEndpointsOptions) {
    this.#slices = slices.filter(({ family }) => family === options.family);
    this.#options = options;
  }

  of(port: Pick<ServicePort, 'name' | 'protocol'>): PortEndpoints {
    const having: EndpointSlice[] = [];
    const numbers = new Set<number>();
    let places = '';
    for (const [at, slice] of this.#slices.entries()) {
      const number = portNumberIn(slice, port);
      if (number === undefined) continue;
      having.push(slice);
      numbers.add(number);
      places += `${at},`;
    }
    const [only] = numbers;
    if (only === undefined) return none;
    if (numbers.size > 1) return this.#choose(having, port);
    const chosen = this.#chosen.get(places) ?? this.#choose(having, port);
    this.#chosen.set(places, chosen);
    return withPort(chosen, only);
  }

  #choose(slices: readonly EndpointSlice[], port: Pick<ServicePort, 'name' | 'protocol'>): PortEndpoints {
    const { family, publishNotReady, place, most } = this.#options;
    const { all, refused } = candidatesOf(slices, { port, family, publishNotReady });
    const { cluster, local, anyEndpoint } = chooseEndpoints(all, place);
    const tooMany = Math.max(cluster.length, local.length);
    const chosen = { cluster: limited(cluster, most), local: limited(local, most), anyEndpoint, refused };
    return tooMany > most ? { ...chosen, tooMany } : chosen;
  }
}

function withPort(chosen: PortEndpoints, number: number): PortEndpoints {
  const [first = chosen.local[0]] = chosen.cluster;
  if (first === undefined || first.port === number) return chosen;
  const moved = (endpoints: readonly ServiceEndpoint[]) => endpoints.map(({ ip }) => ({ ip, port: number }));
  return { ...chosen, cluster: moved(chosen.cluster), local: moved(chosen.local) };
}

/** Returns the endpoints with the smallest hashes: one that is added or removed changes one place, and all nodes choose the same. */
function limited(endpoints: readonly ServiceEndpoint[], most: number): readonly ServiceEndpoint[] {
  if (endpoints.length <= most) return endpoints;
  const ranked = endpoints.map((endpoint) => ({ endpoint, rank: fnv1a([...ipToBytes(endpoint.ip)]) }));
  return ranked
    .sort((a, b) => a.rank - b.rank)
    .slice(0, most)
    .map(({ endpoint }) => endpoint)
    .sort(byAddress);
}
