import { parseCidr } from '../../base/net/ip.ts';
import { endpointSlices } from '../../kubernetes/resources/endpoint-slice.ts';
import { services as serviceResource } from '../../kubernetes/resources/service.ts';
import { keyOf } from '../../policy/reach/objects.ts';
import type { ServedObject, SliceObject } from '../../policy/verify/forwarding-reference/forwarded-objects.ts';
import { serviceIntents } from '../../services/compile/intent.ts';
import type { ProxyConfig } from '../../services/compile/proxy-config.ts';
import type { ServiceIntent } from '../../services/compile/service-intent.ts';
import type { SimulatedObjects } from '../objects/cluster-objects.ts';

/** Every feature of the agent's proxy; a cluster's own configuration is not among its objects. */
const fullProxy: ProxyConfig = {
  proxyAll: true,
  skipServices: new Set(),
  proxyLoadBalancerIps: true,
  serviceProxyName: '',
  externalIpRanges: [parseCidr('0.0.0.0/0'), parseCidr('::/0')],
  bucketTranslation: true,
};

/** A Service with its EndpointSlices, on one side of a change. */
export interface ServedSide {
  readonly served: ServedObject;
  readonly slices: readonly SliceObject[];
}

/** Services and EndpointSlices of a cluster, by `namespace/name` of the Service. */
export class ServiceIndex {
  readonly #services: ReadonlyMap<string, ServedObject>;
  readonly #slices: ReadonlyMap<string, readonly SliceObject[]>;

  constructor({ services, slices }: Pick<SimulatedObjects, 'services' | 'slices'>) {
    this.#services = new Map(services.map((each) => [keyOf(each), each]));
    this.#slices = Map.groupBy(
      slices,
      ({ metadata: { namespace, labels } }) => `${namespace}/${labels?.['kubernetes.io/service-name'] ?? ''}`,
    );
  }

  of(key: string): ServedSide | undefined {
    const served = this.#services.get(key);
    return served && { served, slices: this.#slices.get(key) ?? [] };
  }

  get keys(): Iterable<string> {
    return this.#services.keys();
  }
}

/** Place of a client. */
export interface ClientPlace {
  readonly name: string;
  readonly zone?: string;
}

/** Returns what a node serves for a Service: one intent for each of its ports and families. @throws SeineError `INVALID_INPUT` for an invalid object */
export function intentsAt({ served, slices }: ServedSide, { name, zone }: ClientPlace): readonly ServiceIntent[] {
  const uid = keyOf(served);
  const service = serviceResource.project({ ...served, metadata: { uid, ...served.metadata } });
  if (!service) return [];
  const own = slices.flatMap((each, at) => endpointSlices.project({ ...each, metadata: { name: `${uid}-${at}`, ...each.metadata } }) ?? []);
  const node = {
    name,
    families: ['ipv4', 'ipv6'] as const,
    sctp: true,
    addresses: [],
    gateway: [],
    ...(zone === undefined ? {} : { zone }),
  };
  return serviceIntents(service, own, { node, config: fullProxy });
}

/** Reports whether clients on different nodes may get different endpoints. */
export function dependsOnNode({ served: { spec }, slices }: ServedSide): boolean {
  const { internalTrafficPolicy, externalTrafficPolicy } = spec as Readonly<Record<string, unknown>>;
  if (internalTrafficPolicy === 'Local' || externalTrafficPolicy === 'Local') return true;
  return slices.some(({ endpoints }) => (endpoints ?? []).some((each) => 'hints' in each && each.hints != null));
}

/** Names a port of a Service as users write it: `5432/TCP`. */
export function portName({ port, transport }: Pick<ServiceIntent, 'port' | 'transport'>): string {
  return `${port}/${transport.toUpperCase()}`;
}
