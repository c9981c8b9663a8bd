/** A write of an object of about the maximum size of an API server (1.5 MB), with two of its lists at their maximum. */
export interface LargestWrite {
  readonly name: string;
  readonly method: 'POST' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly body?: object;
  readonly contentType?: 'application/merge-patch+json';
}

const list = <T>(length: number, make: (index: number) => T): T[] => Array.from({ length }, (_, index) => make(index));
const ipOf = (first: number, at: number): string => `${first}.${(at >> 16) & 255}.${(at >> 8) & 255}.${at & 255}`;

const ports = (count: number) => list(count, (at) => ({ name: `p${at}`, protocol: 'TCP', port: at + 1, targetPort: 80 }));

/** They concern no pod: their processing needs no traffic. */
export function largestWrites(namespace: string, clusterNode: string): readonly LargestWrite[] {
  const services = `/api/v1/namespaces/${namespace}/services`;
  const slices = `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`;
  const merge = 'application/merge-patch+json';
  const meta = (name: string, more: object = {}) => ({ name, namespace, ...more });
  const endpoints = (isReady: boolean) =>
    list(1_000, (at) => ({ addresses: [ipOf(100, (64 << 16) + at)], conditions: { ready: at > 0 || isReady } }));
  const slice = (isReady: boolean) => ({
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: meta('many-ports-a', { labels: { 'kubernetes.io/service-name': 'many-ports' } }),
    addressType: 'IPv4',
    ports: list(8_000, (at) => ({ name: `p${at}`, protocol: 'TCP', port: 8_080 })),
    endpoints: endpoints(isReady),
  });
  const service = (name: string, spec: object) => ({ apiVersion: 'v1', kind: 'Service', metadata: meta(name), spec });
  return [
    {
      name: 'service: ports and external addresses',
      method: 'POST',
      path: services,
      body: service('externals', { ports: ports(8_000), externalIPs: list(30_000, (at) => ipOf(198, (51 << 16) + at)) }),
    },
    {
      name: 'service: ports and source ranges',
      method: 'POST',
      path: services,
      body: service('ranges', {
        type: 'LoadBalancer',
        allocateLoadBalancerNodePorts: false,
        ports: ports(8_000),
        loadBalancerSourceRanges: list(20_000, (at) => `${ipOf(30, at)}/32`),
      }),
    },
    {
      name: 'service: status with a load balancer',
      method: 'PATCH',
      path: `${services}/ranges/status`,
      contentType: merge,
      body: { status: { loadBalancer: { ingress: [{ ip: '198.18.77.1', ipMode: 'VIP' }] } } },
    },
    { name: 'service: ports without endpoints', method: 'POST', path: services, body: service('many-ports', { ports: ports(8_000) }) },
    { name: 'slice: ports and endpoints', method: 'POST', path: slices, body: slice(true) },
    {
      name: 'slice: one endpoint',
      method: 'PATCH',
      path: `${slices}/many-ports-a`,
      contentType: merge,
      body: { endpoints: endpoints(false) },
    },
    {
      name: 'node: addresses',
      method: 'PATCH',
      path: `/api/v1/nodes/${clusterNode}/status`,
      contentType: merge,
      body: { status: { addresses: list(20_000, (at) => ({ type: 'InternalIP', address: ipOf(172, (20 << 16) + at) })) } },
    },
    {
      name: 'policy: blocks and ports',
      method: 'POST',
      path: `/apis/networking.k8s.io/v1/namespaces/${namespace}/networkpolicies`,
      body: {
        apiVersion: 'networking.k8s.io/v1',
        kind: 'NetworkPolicy',
        metadata: meta('blocks'),
        spec: {
          podSelector: {},
          policyTypes: ['Ingress'],
          ingress: [
            {
              from: list(12_000, (at) => ({ ipBlock: { cidr: `${ipOf(30, at * 2)}/32` } })),
              ports: list(12_000, (at) => ({ protocol: 'TCP', port: at * 2 + 1 })),
            },
          ],
        },
      },
    },
    { name: 'service: many ports deleted', method: 'DELETE', path: `${services}/many-ports` },
  ];
}
