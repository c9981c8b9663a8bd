import type { Family } from '../../src/base/net/ip.ts';
import { announcementsOwner, compileAnnouncements } from '../../src/dataplane/compile/compile-announcements.ts';
import { compileRefusals, refusalsOwner } from '../../src/dataplane/compile/compile-denied-packets.ts';
import { compileSubject } from '../../src/dataplane/compile/compile-entry.ts';
import { compileNode } from '../../src/dataplane/compile/compile-node.ts';
import { compilePeer, compilePeerRoutes, type PeerIntent, tunnelledNetworks } from '../../src/dataplane/compile/compile-peer.ts';
import { compilePod, type PodIntent } from '../../src/dataplane/compile/compile-pod.ts';
import { compileProbes, probesOwner } from '../../src/dataplane/compile/compile-probes.ts';
import { compileUnservedPorts, unservedPortsOwner } from '../../src/dataplane/compile/compile-service-path.ts';
import { compileTimeExceeded, timeExceededOwner } from '../../src/dataplane/compile/compile-time-exceeded.ts';
import type { NodeEnvironment } from '../../src/dataplane/compile/environment.ts';
import { nothing, type Wanted } from '../../src/dataplane/desired/host-entries.ts';
import { type Owner, ownerOf } from '../../src/dataplane/pipeline/cookie.ts';
import type { Flow, Group } from '../../src/dataplane/pipeline/flow.ts';
import { formatFlow } from '../../src/dataplane/pipeline/format.ts';
import { compileEndpoint, compileService } from '../../src/services/compile/compile-service.ts';
import { type Proxying, serviceIntents } from '../../src/services/compile/intent.ts';
import { askedRanges, translatedEndpoints } from '../../src/services/compile/service-intent.ts';
import { compileSourceRanges, rangeSetOf } from '../../src/services/compile/source-ranges.ts';
import { exampleNode, examplePeers, examplePods, exampleProxying, exampleServices } from '../support/example-node.ts';
import { type SceneService, sceneService } from '../support/scene-service.ts';

/** One node with all that it knows of. */
export interface Scene {
  readonly node: NodeEnvironment;
  readonly peers: readonly PeerIntent[];
  readonly pods: readonly PodIntent[];
  readonly services: readonly SceneService[];
  readonly proxying: Proxying;
}

/** Services with unusual endpoints: nodes, the gateways of peers, tunnel ports of all of them. */
const oddServices: readonly SceneService[] = [
  sceneService({
    name: 'sticky',
    protocol: 'UDP',
    clusterIp: '10.96.0.12',
    port: 53,
    nodePort: 30_053,
    endpoints: ['10.10.0.5 53 n1', '10.10.0.6 53 n1', '10.10.4.9 53 n2'],
    more: { affinitySeconds: 600 },
  }),
  sceneService({
    name: 'here',
    protocol: 'TCP',
    clusterIp: '10.96.0.13',
    port: 443,
    nodePort: 30_443,
    endpoints: ['192.168.77.1 6443 n1'],
  }),
  sceneService({
    name: 'there',
    protocol: 'TCP',
    clusterIp: '10.96.0.14',
    port: 443,
    nodePort: 30_444,
    endpoints: ['192.168.77.2 6443 n2'],
  }),
  sceneService({
    name: 'tunnels',
    protocol: 'UDP',
    clusterIp: '10.96.0.15',
    port: 80,
    endpoints: ['192.168.77.1 6081', '192.168.77.2 6081', '10.10.0.1 6081', '10.10.4.1 6081', '10.10.0.6 6081'],
  }),
  sceneService({
    name: 'nodes6',
    protocol: 'TCP',
    clusterIp: 'fd00:96::13',
    port: 443,
    endpoints: ['fd00:77::1 6443 n1', 'fd00:77::2 6443 n2'],
  }),
  sceneService({
    name: 'own6',
    protocol: 'TCP',
    clusterIp: 'fd00:96::16',
    port: 80,
    nodePort: 30_080,
    endpoints: ['fd00:10::6 8080 n1', 'fd00:10:0:1::9 8080 n2'],
    more: { externalTrafficPolicy: 'Local', externalIps: ['2001:db8:100::5'] },
  }),
  sceneService({
    name: 'tunnels6',
    protocol: 'UDP',
    clusterIp: 'fd00:96::15',
    port: 80,
    endpoints: ['fd00:77::1 6081', 'fd00:10:0:2::1 6081'],
  }),
  sceneService({
    name: 'local',
    protocol: 'TCP',
    clusterIp: '10.96.0.21',
    port: 80,
    nodePort: 30_081,
    endpoints: ['10.10.0.6 8080 n1', '10.10.4.9 8080 n2'],
    more: { externalTrafficPolicy: 'Local', internalTrafficPolicy: 'Local', externalIps: ['198.51.100.9', '192.0.2.1'] },
  }),
  sceneService({
    name: 'elsewhere',
    protocol: 'TCP',
    clusterIp: '10.96.0.22',
    port: 80,
    nodePort: 30_082,
    endpoints: ['10.10.4.9 8080 n2'],
    more: { externalTrafficPolicy: 'Local', internalTrafficPolicy: 'Local' },
  }),
  sceneService({
    name: 'steady6',
    protocol: 'TCP',
    clusterIp: 'fd00:96::17',
    port: 80,
    nodePort: 30_083,
    endpoints: ['fd00:10::5 8080 n1', 'fd00:10:0:1::9 8080 n2'],
    more: { affinitySeconds: 86_400 },
  }),
];

export const exampleScene: Scene = {
  node: exampleNode,
  peers: examplePeers,
  pods: examplePods,
  services: [...exampleServices, ...oddServices],
  proxying: exampleProxying,
};

/** The scene with peers that are reached without a tunnel: both, or one of them in one family, beside one in the tunnel. */
export function withDirectPeers(scene: Scene, which: 'all' | 'one'): Scene {
  const families = scene.node.podCidrs.map(({ family }) => family);
  const direct = Object.fromEntries(families.slice(0, which === 'all' ? 2 : 1).map((family) => [family, {}]));
  const become = (peer: PeerIntent): PeerIntent => ({ ...peer, direct, maySendDirectly: true });
  const node: NodeEnvironment = { ...scene.node, directPackets: true };
  return { ...scene, node, peers: scene.peers.map((peer, at) => (which === 'all' || at === 0 ? become(peer) : peer)) };
}

/** A node of one family, and its peers of that family. */
export function ofOneFamily({ node, peers, pods, services, proxying }: Scene, family: Family): Scene {
  const only = <T extends { readonly family: Family }>(all: readonly T[]): T[] => all.filter((each) => each.family === family);
  return {
    node: {
      ...node,
      gateway: { ...node.gateway, addresses: only(node.gateway.addresses) },
      podCidrs: only(node.podCidrs),
      transport: only(node.transport),
      serviceCidrs: only(node.serviceCidrs),
    },
    peers: peers.map((peer) => ({ ...peer, podCidrs: only(peer.podCidrs), transport: only(peer.transport) })),
    pods: pods.map((pod) => ({ ...pod, addresses: only(pod.addresses) })),
    services: services.filter(({ service }) => service.ipFamilies.includes(family)),
    proxying: { ...proxying, node: { ...proxying.node, families: [family] } },
  };
}

/** Desired state of each owner. */
export function wantedByOwner({ node, peers, pods, services, proxying }: Scene): ReadonlyMap<Owner, Wanted> {
  const groupIds = new Map<string, number>();
  const groupId = (name: string): number => {
    const id = groupIds.get(name) ?? groupIds.size + 1;
    groupIds.set(name, id);
    return id;
  };
  return new Map<Owner, Wanted>([
    [ownerOf('node'), withoutPatterns(compileNode(node))],
    [announcementsOwner, compileAnnouncements()],
    [unservedPortsOwner, compileUnservedPorts(node)],
    [timeExceededOwner, withoutPatterns(compileTimeExceeded(node))],
    [refusalsOwner, withoutPatterns(compileRefusals(node))],
    [probesOwner, compileProbes(node)],
    ...peers.map((peer) => [ownerOf('peer', peer.name), compilePeer(peer, node)] as const),
    [
      ownerOf('peer'),
      compilePeerRoutes(
        peers.flatMap((peer) => tunnelledNetworks(peer, node)),
        node,
      ),
    ],
    ...pods.map((pod) => [ownerOf('pod', `${pod.ofPort}`), compilePod(pod)] as const),
    ...pods.map(
      (pod) =>
        [
          ownerOf('subject', `${pod.ofPort}`),
          { ...nothing, flows: compileSubject({ ofPort: pod.ofPort, addresses: pod.addresses }) },
        ] as const,
    ),
    ...services.flatMap((each) => serviceOwners(each, proxying, groupId)),
  ]);
}

/** Returns the same with plain flows, which mutants may copy and which are not compiled at each packet. */
function withoutPatterns(wanted: Wanted): Wanted {
  return { ...wanted, flows: wanted.flows.map(({ table, priority, match, steps }) => ({ table, priority, match, steps })) };
}

function serviceOwners(
  { service, slices }: SceneService,
  proxying: Proxying,
  groupId: (name: string) => number,
): (readonly [Owner, Wanted])[] {
  return serviceIntents(service, slices, proxying)
    .filter(({ addresses }) => addresses.length > 0)
    .flatMap((intent) => {
      const owner = ownerOf('service', `${service.namespace}/${service.name}:${intent.name}`);
      const options = { owner, groupId: (name: string) => groupId(`${owner}#${name}`) };
      const ranges = askedRanges(intent);
      return [
        ...(ranges ? [[rangeSetOf(ranges).owner, compileSourceRanges(ranges, proxying.node)] as const] : []),
        [owner, compileService(intent, options)] as const,
        ...translatedEndpoints(intent).map(
          (endpoint) =>
            [
              ownerOf('endpoint', intent.transport, endpoint.ip.text, `${endpoint.port}`),
              compileEndpoint(intent.transport, endpoint),
            ] as const,
        ),
      ];
    });
}

/** All flows and groups of the bridge, each once. */
export function compileScene(scene: Scene): { readonly flows: readonly Flow[]; readonly groups: readonly Group[] } {
  const wanted = [...wantedByOwner(scene).values()];
  const flows = new Map(wanted.flatMap(({ flows }) => flows.map((flow) => [formatFlow(flow), flow])));
  return { flows: [...flows.values()], groups: wanted.flatMap(({ groups }) => groups) };
}
