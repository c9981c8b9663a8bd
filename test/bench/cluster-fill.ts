import type { ClusterObjects } from '../../lab/apiserver/cluster-objects.ts';
import type { JsonRecord } from '../../lab/apiserver/object/json.ts';

const endpointsPerService = 3;
const endpointAddresses = 9_000;

/** Services with one port and three ready endpoints each, out of 9,000 addresses of other nodes. */
export function addServices(cluster: ClusterObjects, count: number): void {
  for (let index = 0; index < count; index++) {
    const name = `service-${index}`;
    create(cluster, '', 'services', 'default', {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name },
      spec: { ports: [{ name: 'http', port: 80, targetPort: 8080, protocol: 'TCP' }] },
    });
    create(cluster, 'discovery.k8s.io', 'endpointslices', 'default', {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { name: `${name}-a`, labels: { 'kubernetes.io/service-name': name } },
      addressType: 'IPv4',
      ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
      endpoints: Array.from({ length: endpointsPerService }, (_, each) => ({
        addresses: [endpointAddress(index * endpointsPerService + each)],
        conditions: { ready: true },
      })),
    });
  }
}

/** Number of Services, and of endpoints of each, on distinct addresses. */
export interface ManyServices {
  readonly services: number;
  readonly endpoints: number;
}

/** Endpoints per slice, as the controller of EndpointSlices creates them. */
const endpointsPerSlice = 100;

/** Services with one port whose ready endpoints are pods of other nodes. */
export function addLargeServices(cluster: ClusterObjects, { services, endpoints }: ManyServices): void {
  for (let index = 0; index < services; index++) {
    create(cluster, '', 'services', 'default', {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: `service-${index}` },
      spec: { ports: [{ name: 'http', port: 80, targetPort: 8080, protocol: 'TCP' }] },
    });
    for (let slice = 0; slice * endpointsPerSlice < endpoints; slice++)
      create(cluster, 'discovery.k8s.io', 'endpointslices', 'default', largeSlice(index, slice, endpoints));
  }
}

/** The name of a Service's slice. */
export const sliceName = (service: number, slice: number): string => `service-${service}-${slice}`;

/** @param slice from 0 */
function largeSlice(service: number, slice: number, endpoints: number): JsonRecord {
  const first = slice * endpointsPerSlice;
  const count = Math.min(endpointsPerSlice, endpoints - first);
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: sliceName(service, slice), labels: { 'kubernetes.io/service-name': `service-${service}` } },
    addressType: 'IPv4',
    ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
    endpoints: Array.from({ length: count }, (_, each) => remoteEndpoint(service * endpoints + first + each)),
  };
}

/** A pod of another node. @param number below four million */
export function remoteEndpoint(number: number): JsonRecord {
  const address = `100.${64 + (number >> 16)}.${(number >> 8) & 0xff}.${number & 0xff}`;
  return { addresses: [address], conditions: { ready: true }, nodeName: 'elsewhere' };
}

/** Nodes that exist in the API only. */
export function addNodes(cluster: ClusterObjects, count: number, annotations: Readonly<Record<string, string>> = {}): void {
  for (let index = 1; index <= count; index++)
    create(cluster, '', 'nodes', undefined, {
      ...nodeManifest(index),
      metadata: { name: `peer-${index}`, annotations: { ...annotations } },
    });
}

/** @param index from 1, below 16,384 */
export function nodeManifest(index: number): JsonRecord {
  const [high, low] = [index >> 8, index & 0xff];
  const podCIDRs = [`100.${64 + high}.${low}.0/24`, `fd01:0:0:${index.toString(16)}::/64`];
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: `peer-${index}` },
    spec: { podCIDR: podCIDRs[0] ?? '', podCIDRs },
    status: {
      addresses: [
        { type: 'InternalIP', address: `172.20.${high}.${low}` },
        { type: 'InternalIP', address: `fd02::${index.toString(16)}` },
        { type: 'Hostname', address: `peer-${index}` },
      ],
    },
  };
}

function endpointAddress(number: number): string {
  const offset = number % endpointAddresses;
  return `100.64.${offset >> 8}.${offset & 0xff}`;
}

function create(
  { registry, writer }: ClusterObjects,
  group: string,
  plural: string,
  namespace: string | undefined,
  object: JsonRecord,
): void {
  const resource = registry.find(group, 'v1', plural);
  if (!resource) throw new Error(`the API server has no ${plural}`);
  writer.create(resource, namespace, object, { fieldManager: 'bench' });
}
