import { compileNode } from '../../src/connectivity/compile-node.ts';
import { compilePeer, type PeerIntent } from '../../src/connectivity/compile-peer.ts';
import { compilePod, type PodIntent } from '../../src/connectivity/compile-pod.ts';
import type { NodeEnvironment } from '../../src/connectivity/environment.ts';
import { type Family, parseIp } from '../../src/net/ip.ts';
import { type Owner, ownerOf } from '../../src/pipeline/cookie.ts';
import type { Flow, Group } from '../../src/pipeline/flow.ts';
import { formatFlow } from '../../src/pipeline/format.ts';
import { compileEndpoint, compileService, type Endpoint, type ServicePort } from '../../src/proxy/compile-service.ts';
import type { Wanted } from '../../src/wanted/wanted.ts';
import { exampleNode, examplePeers, examplePods, exampleServices } from '../support/example-node.ts';

/** One node with all that it knows of. */
export interface Scene {
  readonly node: NodeEnvironment;
  readonly peers: readonly PeerIntent[];
  readonly pods: readonly PodIntent[];
  readonly services: readonly ServicePort[];
}

/** Services whose endpoints are odd: nodes, the gateways of peers, tunnel ports of all of them. */
const oddServices: readonly ServicePort[] = [
  { transport: 'udp', clusterIp: parseIp('10.96.0.12'), port: 53, groupId: 4, endpoints: endpoints('10.10.0.5 53', '10.10.0.6 53') },
  { transport: 'tcp', clusterIp: parseIp('10.96.0.13'), port: 443, groupId: 5, endpoints: endpoints('192.168.77.1 6443') },
  { transport: 'tcp', clusterIp: parseIp('10.96.0.14'), port: 443, groupId: 6, endpoints: endpoints('192.168.77.2 6443') },
  {
    transport: 'udp',
    clusterIp: parseIp('10.96.0.15'),
    port: 80,
    groupId: 7,
    endpoints: endpoints('192.168.77.1 6081', '192.168.77.2 6081', '10.10.0.1 6081', '10.10.4.1 6081', '10.10.0.6 6081'),
  },
  {
    transport: 'tcp',
    clusterIp: parseIp('fd00:96::13'),
    port: 443,
    groupId: 8,
    endpoints: endpoints('fd00:77::1 6443', 'fd00:77::2 6443'),
  },
  { transport: 'tcp', clusterIp: parseIp('fd00:96::16'), port: 80, groupId: 9, endpoints: endpoints('fd00:10::6 8080') },
  {
    transport: 'udp',
    clusterIp: parseIp('fd00:96::15'),
    port: 80,
    groupId: 10,
    endpoints: endpoints('fd00:77::1 6081', 'fd00:10:0:2::1 6081'),
  },
];

export const exampleScene: Scene = {
  node: exampleNode,
  peers: examplePeers,
  pods: examplePods,
  services: [...exampleServices, ...oddServices],
};

/** Addresses and ports as `address port`. */
function endpoints(...texts: readonly string[]): Endpoint[] {
  return texts.map((text) => {
    const [ip = '', port] = text.split(' ');
    return { ip: parseIp(ip), port: Number(port) };
  });
}

/** A node of one family, and what it knows of the others of that family. */
export function ofOneFamily({ node, peers, pods, services }: Scene, family: Family): Scene {
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
    services: services.filter(({ clusterIp }) => clusterIp.family === family),
  };
}

/** What each owner wants of the node. */
export function wantedByOwner({ node, peers, pods, services }: Scene): ReadonlyMap<Owner, Wanted> {
  return new Map<Owner, Wanted>([
    [ownerOf('node'), compileNode(node)],
    ...peers.map((peer) => [ownerOf('peer', peer.name), compilePeer(peer, node)] as const),
    ...pods.map((pod) => [ownerOf('pod', `${pod.ofPort}`), compilePod(pod)] as const),
    ...services.flatMap((service) => [
      [ownerOf('service', `${service.transport}/${service.clusterIp.text}/${service.port}`), compileService(service)] as const,
      ...service.endpoints.map(
        (endpoint) =>
          [
            ownerOf('endpoint', service.transport, endpoint.ip.text, `${endpoint.port}`),
            compileEndpoint(service.transport, endpoint),
          ] as const,
      ),
    ]),
  ]);
}

/** All flows and groups of the bridge, each once. */
export function compileScene(scene: Scene): { readonly flows: readonly Flow[]; readonly groups: readonly Group[] } {
  const wanted = [...wantedByOwner(scene).values()];
  const flows = new Map(wanted.flatMap(({ flows }) => flows.map((flow) => [formatFlow(flow), flow])));
  return { flows: [...flows.values()], groups: wanted.flatMap(({ groups }) => groups) };
}
