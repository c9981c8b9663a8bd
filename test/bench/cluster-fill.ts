import type { Core } from '../../src/lab/apiserver/core.ts';
import type { JsonObject } from '../../src/lab/apiserver/json.ts';
import { createObject } from '../../src/lab/apiserver/write.ts';

const endpointsPerService = 3;
const endpointAddresses = 9_000;

/** Services with one port and three ready endpoints each, out of 9,000 addresses of other nodes. */
export function addServices(core: Core, count: number): void {
  for (let index = 0; index < count; index++) {
    const name = `service-${index}`;
    create(core, '', 'services', 'default', {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name },
      spec: { ports: [{ name: 'http', port: 80, targetPort: 8080, protocol: 'TCP' }] },
    });
    create(core, 'discovery.k8s.io', 'endpointslices', 'default', {
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

/** Nodes that exist in the API only. */
export function addNodes(core: Core, count: number): void {
  for (let index = 1; index <= count; index++) create(core, '', 'nodes', undefined, nodeManifest(index));
}

/** @param index from 1, below 16,384 */
export function nodeManifest(index: number): JsonObject {
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

function create(core: Core, group: string, plural: string, namespace: string | undefined, object: JsonObject): void {
  const resource = core.registry.find(group, 'v1', plural);
  if (!resource) throw new Error(`the API server has no ${plural}`);
  createObject(core, resource, namespace, object, { fieldManager: 'bench' });
}
