import fc from 'fast-check';
import { cidrContains, type Family, type Ip, parseIp } from '../../src/base/net/ip.ts';
import { packEndpoints, type SliceEndpoint } from '../../src/base/net/packed-endpoints.ts';
import { nodePortAddress, virtualRanges } from '../../src/dataplane/pipeline/well-known.ts';
import type { Service } from '../../src/kubernetes/resources/service.ts';
import type { SceneService } from '../support/scene-service.ts';
import { vantageOf } from './reference.ts';
import { exampleScene, type Scene } from './scene.ts';
import { promised, type ServiceClient, type ServiceDestination } from './service-reference.ts';

/** Possible endpoints in the example's cluster: pods and hosts of three nodes, and a host outside. */
const places: Readonly<Record<Family, readonly (readonly [address: string, node?: string])[]>> = {
  ipv4: [
    ['10.10.0.5', 'n1'],
    ['10.10.0.6', 'n1'],
    ['10.10.4.9', 'n2'],
    ['10.10.4.10', 'n2'],
    ['10.10.8.9', 'n3'],
    ['192.168.77.1', 'n1'],
    ['192.168.77.2', 'n2'],
    ['203.0.113.200'],
    ['198.51.100.200'],
  ],
  ipv6: [
    ['fd00:10::5', 'n1'],
    ['fd00:10::6', 'n1'],
    ['fd00:10:0:1::9', 'n2'],
    ['fd00:10:0:2::9', 'n3'],
    ['fd00:77::1', 'n1'],
    ['fd00:77::2', 'n2'],
    ['2001:db8:100::c8'],
  ],
};

/** Some of those places, a load balancer's and one outside. */
const sharedAddresses: Readonly<Record<Family, readonly [string, string]>> = {
  ipv4: ['192.168.77.2', '198.51.100.200'],
  ipv6: ['fd00:77::2', '2001:db8:100::c8'],
};

const pick = <T>(...from: readonly T[]): fc.Arbitrary<T> => fc.constantFrom(...from);
const policies = pick('Cluster' as const, 'Local' as const);
const states = pick(
  { ready: true, serving: true, terminating: false },
  { ready: true, serving: true, terminating: false },
  { ready: false, serving: true, terminating: true },
  { ready: false, serving: false, terminating: true },
  { ready: false, serving: false, terminating: false },
);

function endpoints(family: Family): fc.Arbitrary<SliceEndpoint[]> {
  const hints = pick('none' as const, 'zones' as const, 'nodes' as const, 'mixed' as const);
  const each = fc.record({
    place: pick(...places[family]),
    state: states,
    zone: pick('a', 'b'),
    node: pick('n1', 'n2'),
    hint: fc.boolean(),
  });
  return fc.tuple(hints, fc.array(each, { maxLength: 7 })).map(([kind, all]) =>
    all.map(({ place: [address, nodeName], state, zone, node, hint }) => ({
      addresses: [address],
      ...state,
      ...(nodeName === undefined ? {} : { nodeName }),
      ...((kind === 'zones' || (kind === 'mixed' && hint)) && { zoneHints: [zone] }),
      ...((kind === 'nodes' || (kind === 'mixed' && !hint)) && { nodeHints: [node] }),
    })),
  );
}

/** The `index`-th Service of a cluster, of one family, with its endpoints in two slices that may overlap. */
function service(index: number): fc.Arbitrary<SceneService> {
  return pick<Family>('ipv4', 'ipv6').chain((family) =>
    fc
      .record({
        type: pick<Service['type']>('ClusterIP', 'NodePort', 'LoadBalancer', 'LoadBalancer', 'ExternalName'),
        protocol: pick('TCP' as const, 'UDP' as const),
        internalTrafficPolicy: policies,
        externalTrafficPolicy: policies,
        affinity: fc.boolean(),
        publishNotReadyAddresses: pick(false, false, true),
        external: fc.boolean(),
        /** Its external addresses, and its port, may be an endpoint's. */
        target: pick(8080, 8080, 80),
        isEndpoint: fc.boolean(),
        ipMode: pick('VIP' as const, 'VIP' as const, 'Proxy' as const),
        ranges: fc.subarray(['203.0.113.0/24', '10.10.0.0/16', '192.168.77.0/24', '0.0.0.0/0', '2001:db8:77::/48', 'fd00:10::/32'], {
          maxLength: 2,
        }),
        label: pick('none', 'none', 'none', 'headless', 'other'),
        slices: fc.tuple(endpoints(family), endpoints(family)),
      })
      .map((drawn) => built(index, family, drawn)),
  );
}

interface Drawn extends Pick<Service, 'type' | 'internalTrafficPolicy' | 'externalTrafficPolicy' | 'publishNotReadyAddresses'> {
  readonly protocol: 'TCP' | 'UDP';
  readonly affinity: boolean;
  readonly external: boolean;
  readonly target: number;
  readonly isEndpoint: boolean;
  readonly ipMode: 'VIP' | 'Proxy';
  readonly ranges: readonly string[];
  readonly label: string;
  readonly slices: readonly SliceEndpoint[][];
}

function built(index: number, family: Family, drawn: Drawn): SceneService {
  const { type, protocol, affinity, external, target, isEndpoint, ipMode, ranges, label, slices, ...same } = drawn;
  const address = (ipv4: string, ipv6: string): string => `${family === 'ipv4' ? ipv4 : ipv6}${index + 1}`;
  const name = `s${index}`;
  const [balancer, outside] = sharedAddresses[family];
  return {
    service: {
      ...same,
      namespace: 'default',
      name,
      uid: name,
      type,
      clusterIps: type === 'ExternalName' ? [] : [address('10.96.1.', 'fd00:96::1:')],
      ipFamilies: [family],
      ports: [{ name: 'p', protocol, port: 80, targetPort: target, nodePort: 30_000 + index }],
      ...(affinity ? { affinitySeconds: 60 } : {}),
      // Two Services cannot have one address.
      externalIps: external ? [isEndpoint && index === 0 ? outside : address('198.51.100.', '2001:db8:100::')] : [],
      loadBalancerIngress: [{ ip: isEndpoint && index === 1 ? balancer : address('192.0.2.', '2001:db8:200::'), ipMode }],
      loadBalancerSourceRanges: ranges,
      headlessLabel: label === 'headless',
      ...(label === 'other' ? { proxyName: 'other' } : {}),
    },
    slices: slices.map((list, at) => ({
      namespace: 'default',
      name: `${name}-${at}`,
      service: name,
      family,
      ports: [{ name: 'p', protocol, port: target }],
      endpoints: packEndpoints(list),
    })),
  };
}

/** The example's cluster with other Services. */
export const clusters: fc.Arbitrary<Scene> = fc
  .tuple(service(0), service(1), service(2))
  .map((services) => ({ ...exampleScene, services }));

export interface Question {
  readonly asked: ServiceDestination;
  readonly by: ServiceClient;
  readonly portSrc: number;
  readonly inPort: number;
}

/** Every client, at every address that a Service of the scene may have. */
export function questions({ node, pods, services }: Scene): readonly Question[] {
  return services.flatMap(({ service: each }) => {
    const [port] = each.ports;
    if (!port) return [];
    const named = [...each.clusterIps, ...each.externalIps, ...each.loadBalancerIngress.map(({ ip }) => ip)].map(parseIp);
    const [family] = each.ipFamilies;
    const at = [
      ...named.map((ip) => ({ ip, port: port.port })),
      ...(family && port.nodePort !== undefined ? [{ ip: nodePortAddress[family], port: port.nodePort }] : []),
    ];
    const byGateway = (kind: ServiceClient['kind'], ip: string) => ({ by: { kind, ip: parseIp(ip) }, inPort: node.gateway.ofPort });
    const [pod] = pods;
    const clients = [
      ...(pod?.addresses ?? []).map((ip) => ({ by: { kind: 'pod' as const, ip }, inPort: pod?.ofPort ?? 0 })),
      ...node.gateway.addresses.map((ip) => ({ by: { kind: 'node' as const, ip }, inPort: node.gateway.ofPort })),
      ...['203.0.113.77', '192.0.2.177', '2001:db8:77::1', '2001:db8:78::1'].map((ip) => byGateway('external', ip)),
      ...['10.10.0.5', 'fd00:10::6'].map((ip) => byGateway('pod', ip)),
    ];
    const protocol = port.protocol === 'TCP' ? ('tcp' as const) : ('udp' as const);
    return at.flatMap(({ ip, port: number }) =>
      clients
        .filter(
          ({ by, inPort }) => by.ip.family === ip.family && (inPort === node.gateway.ofPort || ip.text !== nodePortAddress[ip.family].text),
        )
        .map(({ by, inPort }) => ({ asked: { protocol, ip, port: number }, by, inPort, portSrc: 40_000 }))
        // Such a source is forged.
        .concat(
          isOutside(ip, each.clusterIps)
            ? [{ asked: { protocol, ip, port: number }, ...byGateway('external', ip.text), portSrc: number }]
            : [],
        ),
    );
  });
}

function isOutside(ip: Ip, clusterIps: readonly string[]): boolean {
  return !clusterIps.includes(ip.text) && !virtualRanges.some((range) => cidrContains(range, ip));
}

/**
 * Outcomes by the documentation, as a sorted list: endpoints, or others. A host that is the destination by its own address and port gets
 * the packet unchanged.
 */
export function allowed(scene: Scene, { asked, by, portSrc }: Question): string[] {
  const answer = promised(scene.services, asked, by, vantageOf(scene));
  if (answer && by.ip.text === asked.ip.text && portSrc === asked.port) return ['itself'];
  if (answer?.what !== 'endpoints') return [answer?.what ?? 'none'];
  const own = `${asked.ip.text} ${asked.port}`;
  return [...new Set(answer.endpoints.map((endpoint) => (endpoint === own ? 'itself' : endpoint)))].toSorted();
}
