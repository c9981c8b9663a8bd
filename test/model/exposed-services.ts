import fc from 'fast-check';
import { parseIp } from '../../src/base/net/ip.ts';
import type { ForwardedObjects, ServedObject, SliceObject } from '../../src/policy/verify/forwarding-reference/forwarded-objects.ts';

/* Services with addresses for clients outside, and endpoints in every condition. */

const pick = <T>(...from: readonly T[]): fc.Arbitrary<T> => fc.constantFrom(...from);

/** Source addresses of clients outside: the ranges below contain some. */
export const clients = { ipv4: ['198.51.100.7', '198.51.100.99', '203.0.113.1'], ipv6: ['2001:db8::7', '2001:db8:1::7'] } as const;
const ranges = ['198.51.100.0/26', '203.0.113.0/24', '192.168.0.2/32', '10.1.0.0/24', '2001:db8::/48', 'fd00:1::/64'] as const;

const exposure = fc.record({
  type: pick('ClusterIP', 'NodePort', 'NodePort', 'LoadBalancer', 'LoadBalancer'),
  external: pick('Cluster', 'Local', 'Local'),
  affinity: pick('None', 'None', 'ClientIP'),
  hasExternalIp: fc.boolean(),
  /** Address of the load balancer: one of its own, one of a node, or one that nodes do not serve. */
  ingress: pick('own', 'own', 'node', 'proxy', 'none'),
  ranges: fc.uniqueArray(pick(...ranges), { maxLength: 2 }),
  publishNotReady: pick(false, false, true),
  /** Family of which the Service has no cluster address, whatever its other addresses are. */
  lacks: pick('none', 'none', 'none', 'ipv4', 'ipv6'),
});
type Exposure = typeof exposure extends fc.Arbitrary<infer Value> ? Value : never;

const condition = fc.oneof(
  { weight: 5, arbitrary: fc.constant({ ready: true, serving: true, terminating: false }) },
  { weight: 1, arbitrary: fc.constant({ ready: false, serving: false, terminating: false }) },
  { weight: 1, arbitrary: fc.constant({ ready: false, serving: true, terminating: true }) },
  { weight: 1, arbitrary: fc.constant({ ready: false, serving: false, terminating: true }) },
);
const hint = fc.record({
  forZones: pick<readonly string[]>([], ['a'], ['b'], ['a', 'b']),
  forNodes: pick<readonly string[]>([], [], ['n1'], ['n2']),
});

/** Draws by which the Services of a cluster get addresses and conditions: those of a Service's number, again from the first. */
export const exposures = fc.record({
  services: fc.array(exposure, { minLength: 1, maxLength: 4 }),
  conditions: fc.array(condition, { minLength: 1, maxLength: 8 }),
  hints: fc.option(fc.array(hint, { minLength: 1, maxLength: 6 }), { nil: undefined }),
  endpoints: fc.array(fc.array(fc.nat(), { maxLength: 4 }), { minLength: 1, maxLength: 4 }),
  /** Conditions and hints of the same endpoints in further slices are those of this many numbers later. */
  moved: fc.array(fc.nat({ max: 7 }), { maxLength: 2 }),
});
type Exposures = typeof exposures extends fc.Arbitrary<infer Value> ? Value : never;

const zones: Readonly<Record<string, string>> = { n1: 'a', n2: 'b', n3: 'a' };

/** Returns the cluster with Services that clients outside reach. */
export function exposed(objects: ForwardedObjects, drawn: Exposures): ForwardedObjects {
  const services = objects.services.map((service, at) => exposedService(service, at, drawn.services[at % drawn.services.length]));
  const nodes = objects.nodes.map((node) => ({
    ...node,
    metadata: { ...node.metadata, labels: { ...node.metadata.labels, 'topology.kubernetes.io/zone': zones[node.metadata.name] ?? 'a' } },
  }));
  const slices = services.flatMap((service, at) => slicesOf(service, objects, drawn.endpoints[at % drawn.endpoints.length] ?? [], drawn));
  return { ...objects, services, nodes, slices };
}

/** Endpoints are pods of any kind, by their numbers, and a host outside. */
function slicesOf(service: ServedObject, { pods }: ForwardedObjects, numbers: readonly number[], drawn: Exposures): readonly SliceObject[] {
  const hosts = [
    ...pods.map(({ spec, status }) => ({ nodeName: spec.nodeName, addresses: (status.podIPs ?? []).map(({ ip }) => ip) })),
    elsewhere,
  ];
  const chosen = [...new Set(numbers.map((number) => hosts[number % hosts.length]))];
  const { namespace, name } = service.metadata;
  const slices = (['ipv4', 'ipv6'] as const).map(
    (family): SliceObject => ({
      metadata: { namespace, labels: { 'kubernetes.io/service-name': name } },
      addressType: family === 'ipv4' ? 'IPv4' : 'IPv6',
      ports: (service.spec.ports ?? []).map(({ name: own, protocol }, at) => ({
        name: own ?? '',
        protocol: protocol ?? 'TCP',
        port: 8_080 + at,
      })),
      endpoints: chosen.flatMap((host) => {
        const address = host?.addresses.find((ip) => parseIp(ip).family === family);
        return address === undefined ? [] : [{ addresses: [address], ...(host?.nodeName !== undefined && { nodeName: host.nodeName }) }];
      }),
    }),
  );
  // Endpoints that move between slices are in several for a while.
  return slices.flatMap((slice) => [0, ...drawn.moved].map((by) => withConditions(slice, drawn, by)));
}

const elsewhere = { nodeName: undefined, addresses: ['203.0.113.50', '2001:db8::50'] };

function exposedService(service: ServedObject, at: number, drawn: Exposure | undefined): ServedObject {
  if (!drawn) return service;
  const { type, external, affinity, hasExternalIp, ingress, publishNotReady, lacks } = drawn;
  const clusterIPs = (service.spec.clusterIPs ?? []).filter((each) => parseIp(each).family !== lacks);
  const isBalanced = type === 'LoadBalancer';
  const own: readonly string[] = [`203.0.113.${100 + at}`, `2001:db8:ffff::${100 + at}`];
  const list = { own, proxy: own, node: ['192.168.0.2'], none: [] }[ingress] ?? [];
  return {
    ...service,
    spec: {
      ...service.spec,
      ...(clusterIPs.length > 0 && { clusterIPs }),
      type,
      externalTrafficPolicy: external,
      sessionAffinity: affinity,
      publishNotReadyAddresses: publishNotReady,
      ...(hasExternalIp && { externalIPs: [`203.0.113.${200 + at}`, `2001:db8:eeee::${200 + at}`] }),
      ...(isBalanced && { loadBalancerSourceRanges: drawn.ranges }),
      ports: (service.spec.ports ?? []).map((port) => ({
        ...port,
        ...(type !== 'ClusterIP' && { nodePort: 30_000 + 100 * at + (port.port % 100) }),
      })),
    },
    // Two Services with one address of a node would conflict.
    ...(isBalanced &&
      (ingress !== 'node' || at === 0) && {
        status: { loadBalancer: { ingress: list.map((ip) => ({ ip, ipMode: ingress === 'proxy' ? 'Proxy' : 'VIP' })) } },
      }),
  } as ServedObject;
}

function withConditions(slice: SliceObject, { conditions, hints }: Exposures, by: number): SliceObject {
  return {
    ...slice,
    endpoints: (slice.endpoints ?? []).map((endpoint, at) => {
      const drawn = hints?.[(at + by) % hints.length];
      const named = (names: readonly string[]) => names.map((name) => ({ name }));
      return {
        ...endpoint,
        conditions: conditions[(at + by) % conditions.length] ?? null,
        ...(drawn && { hints: { forZones: named(drawn.forZones), forNodes: named(drawn.forNodes) } }),
      };
    }),
  };
}
