import type { PodSpec, PodStatus, ServicePort, ServiceSpec } from 'kubernetes-types/core/v1.d.ts';
import type { Endpoint, EndpointPort } from 'kubernetes-types/discovery/v1.d.ts';
import type { ApiObject } from '../object/api-object.ts';
import { defined } from '../object/json.ts';
import type { ServiceDraft } from '../strategies/service/service-facts.ts';

export type AddressType = 'IPv4' | 'IPv6';

/** Endpoints that serve the same port numbers: named target ports may differ from pod to pod. */
export interface EndpointGroup {
  readonly ports: readonly EndpointPort[];
  /** Endpoints in the order of their addresses. */
  readonly endpoints: readonly Endpoint[];
}

export function addressTypesOf({ ipFamilies = [] }: ServiceSpec): readonly AddressType[] {
  return ipFamilies.filter((family): family is AddressType => family === 'IPv4' || family === 'IPv6');
}

/**
 * The endpoints of a Service in one family. Pods that have ended or have no address yet are not endpoints; pods that are being deleted
 * remain, as terminating, until they are deleted.
 */
export function groupEndpoints(
  service: ApiObject,
  pods: readonly ApiObject[],
  type: AddressType,
  zoneOf: (node: string) => string | undefined,
): readonly EndpointGroup[] {
  const groups = new Map<string, { ports: readonly EndpointPort[]; endpoints: Endpoint[] }>();
  const spec = service.spec as ServiceSpec;
  for (const pod of pods) {
    const address = addressOf(pod, type);
    if (address === undefined) continue;
    const ports = (spec.ports ?? []).flatMap((port) => endpointPort(port, pod.spec as PodSpec) ?? []);
    const key = JSON.stringify(ports);
    const group = groups.get(key) ?? { ports, endpoints: [] };
    group.endpoints.push(endpointOf(service, pod, address, zoneOf));
    groups.set(key, group);
  }
  const ordered = Array.from(groups.entries()).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return ordered.map(([, { ports, endpoints }]) => ({
    ports,
    endpoints: endpoints.toSorted((a, b) => ((a.addresses[0] ?? '') < (b.addresses[0] ?? '') ? -1 : 1)),
  }));
}

function addressOf(pod: ApiObject, type: AddressType): string | undefined {
  const { phase, podIPs = [] } = (pod.status ?? {}) as PodStatus;
  if (phase === 'Succeeded' || phase === 'Failed') return undefined;
  return podIPs.find(({ ip = '' }) => ip.includes(':') === (type === 'IPv6'))?.ip;
}

/** Undefined if the pod has no port of the name that the Service targets. */
function endpointPort(
  { name = '', port, protocol = 'TCP', targetPort = port, appProtocol }: ServicePort,
  pod: PodSpec,
): EndpointPort | undefined {
  const number = typeof targetPort === 'number' ? targetPort : namedPort(pod, targetPort, protocol);
  return number === undefined ? undefined : (defined({ name, port: number, protocol, appProtocol }) as EndpointPort);
}

function namedPort({ containers }: PodSpec, name: string, protocol: string): number | undefined {
  const ports = containers.flatMap((container) => container.ports ?? []);
  return ports.find((port) => port.name === name && (port.protocol ?? 'TCP') === protocol)?.containerPort;
}

function endpointOf(service: ApiObject, pod: ApiObject, address: string, zoneOf: (node: string) => string | undefined): Endpoint {
  const { publishNotReadyAddresses = false, trafficDistribution } = service.spec as ServiceDraft;
  const { nodeName, hostname, subdomain } = pod.spec as PodSpec;
  const serving = ((pod.status as PodStatus).conditions ?? []).some(({ type, status }) => type === 'Ready' && status === 'True');
  const terminating = pod.metadata.deletionTimestamp !== undefined;
  const zone = nodeName === undefined ? undefined : zoneOf(nodeName);
  const { name, namespace, uid } = pod.metadata;
  return defined({
    addresses: [address],
    conditions: { ready: publishNotReadyAddresses || (serving && !terminating), serving, terminating },
    hostname: hostname !== undefined && subdomain === service.metadata.name ? hostname : undefined,
    nodeName,
    targetRef: { kind: 'Pod', name, namespace, uid },
    zone,
    hints: hintsOf(trafficDistribution, nodeName, zone),
  }) as Endpoint;
}

/** Zones and nodes that should prefer an endpoint. Source: KEP-2433 and KEP-3015, the heuristics of `trafficDistribution`. */
function hintsOf(distribution: string | undefined, node: string | undefined, zone: string | undefined): object | undefined {
  const forZones = zone === undefined ? {} : { forZones: [{ name: zone }] };
  if (distribution === 'PreferSameNode') return node === undefined ? undefined : { ...forZones, forNodes: [{ name: node }] };
  return distribution === undefined || zone === undefined ? undefined : forZones;
}
