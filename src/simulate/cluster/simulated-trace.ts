import type { FamilyTrace, NodeTrace } from '../../api/trace.ts';
import { type Ip, parseIp } from '../../base/net/ip.ts';
import type { PeerIntent } from '../../dataplane/compile/compile-peer.ts';
import type { NodeEnvironment } from '../../dataplane/compile/environment.ts';
import type { FlowSource, InstalledFlow } from '../../dataplane/flow-walk/installed-flow.ts';
import { tableName } from '../../dataplane/pipeline/tables.ts';
import type { Peer } from '../../kubernetes/resources/peer-source.ts';
import type { PolicyPod } from '../../kubernetes/resources/policy-pod.ts';
import type { Service } from '../../kubernetes/resources/service.ts';
import { services as serviceResource } from '../../kubernetes/resources/service.ts';
import { printFlow } from '../../openflow/text/flow-text.ts';
import { familyTrace } from '../../operations/trace/family-trace.ts';
import type { HopNames } from '../../operations/trace/hop-text.ts';
import { kernelPaths } from '../../operations/trace/kernel-paths.ts';
import { endsOf } from '../../operations/trace/trace-ends.ts';
import type { TraceNode } from '../../operations/trace/trace-paths.ts';
import { type TraceNames, traceQuestion } from '../../operations/trace/trace-question.ts';
import type { Lease } from '../../pods/ipam/lease.ts';
import { keyOf } from '../../policy/reach/objects.ts';
import type { NodeObject } from '../../policy/verify/reference/objects.ts';
import { transportOf } from './node-compiler.ts';
import type { SimulatedCluster, SimulatedNode } from './simulated-cluster.ts';

/** Parts of a node of which a packet can be traced. */
export interface TraceableNode {
  readonly name: string;
  readonly environment: NodeEnvironment;
  readonly names: TraceNames;
  readonly hopNames: HopNames;
  readonly bridge: FlowSource;
  readonly desired: FlowSource;
  /** How the kernel sends packets to pods of other nodes without the tunnel. */
  readonly onward: TraceNode['onward'];
  /** Returns the name of an OpenFlow port; absent: flows are printed with numbers. */
  readonly portName?: (port: number) => string | undefined;
}

/**
 * Traces a packet through one node of a simulated cluster, like the path `/v1/trace` of its agent.
 *
 * @param bridgeOf returns the flows that a node has, if they are not those that it desires
 * @throws SeineError `INVALID_INPUT` that names the field and the value
 */
export async function traceInCluster(
  cluster: SimulatedCluster,
  nodeName: string,
  query: URLSearchParams,
  bridgeOf: (node: SimulatedNode) => FlowSource = ({ flows }) => flows,
): Promise<NodeTrace> {
  const node = cluster.node(nodeName);
  const { environment, flows } = node;
  const names = traceNames(cluster, node);
  const peers = cluster.peersOf(nodeName);
  return await tracedOn(
    {
      name: node.name,
      environment,
      names,
      hopNames: hopNames(cluster, node),
      bridge: bridgeOf(node),
      desired: flows,
      onward: kernelPaths(
        { intents: () => peers, modesOf: (name) => blockedModes(environment, peers, name) },
        { node: nodeName, environment, translated: node.translated },
      ),
    },
    query,
  );
}

/** Families in which the kernel drops packets for a peer, because they would not be encrypted: such a path has no hop. */
export function blockedModes(
  { wireGuard }: Pick<NodeEnvironment, 'wireGuard'>,
  peers: readonly Pick<PeerIntent, 'name' | 'direct'>[],
  name: string,
): readonly { readonly family: string; readonly mode: string }[] {
  if (wireGuard?.unencryptedPeers !== 'drop' || wireGuard.isEnding) return [];
  const { direct } = peers.find((each) => each.name === name) ?? {};
  return (['ipv4', 'ipv6'] as const).flatMap((family) => (direct?.[family]?.hop === undefined ? [{ family, mode: 'blocked' }] : []));
}

/** @throws SeineError `INVALID_INPUT` that names the field and the value */
export async function tracedOn(node: TraceableNode, query: URLSearchParams): Promise<NodeTrace> {
  const question = traceQuestion(query, node.names);
  const { environment } = node;
  const source: TraceNode = {
    bridge: node.bridge,
    desired: node.desired,
    names: node.hopNames,
    gateway: environment.gateway.ofPort,
    tunnel: environment.tunnel.ofPort,
    onward: node.onward,
    flowText: (flow: InstalledFlow) =>
      printFlow(
        { ...flow, idleTimeout: 0, hardTimeout: 0, flags: 0, importance: 0 },
        { table: tableName, ...(node.portName && { port: node.portName }) },
      ),
  };
  const traces: FamilyTrace[] = [];
  for (const ends of question.families.flatMap((family) => endsOf(question, family)))
    traces.push(await familyTrace(source, question, ends, { environment, leases: node.names.leases, translated: node.names.translated }));
  return { node: node.name, traces };
}

/** Attachment of a pod as the journal of an agent would have it. */
export function leaseOf(name: string, at: number, { mac, addresses }: Pick<Lease, 'mac'> & { readonly addresses: readonly Ip[] }): Lease {
  const [namespace = '', podName = ''] = name.split('/');
  return {
    network: '',
    containerId: name,
    ifName: 'eth0',
    serial: at,
    state: 'allocated',
    netns: '',
    mac,
    addresses: addresses.map((ip) => ({ ip, prefixLength: 32, gateway: ip })),
    pod: { namespace, name: podName, uid: '' },
    attached: { hostIfName: name, hostMac: mac, mtu: 0 },
  };
}

function traceNames(cluster: SimulatedCluster, node: SimulatedNode): TraceNames {
  const ports = new Map(node.pods.map(({ name, ofPort }) => [name, ofPort]));
  return {
    node: node.name,
    environment: node.environment,
    leases: node.pods.map((pod, at) => leaseOf(pod.name, at, pod)),
    portOf: ({ attached }) => (attached ? ports.get(attached.hostIfName) : undefined),
    podElsewhere: (name) => policyPodOf(cluster, name),
    service: (name) => serviceNamed(cluster, name),
    peer: (name) => {
      const object = cluster.objects.nodes.find(({ metadata }) => metadata.name === name);
      return object && name !== node.name ? peerObject(object) : undefined;
    },
    translated: node.translated,
  };
}

function policyPodOf(cluster: SimulatedCluster, name: string): PolicyPod | undefined {
  const pod = cluster.podNamed(name);
  if (!pod) return undefined;
  const { namespace, name: own } = pod.metadata;
  return { namespace, name: own, podIps: (pod.status.podIPs ?? []).map(({ ip }) => parseIp(ip).text), labels: {}, ports: {} };
}

function serviceNamed({ objects }: SimulatedCluster, name: string): Service | undefined {
  const object = objects.services.find((each) => keyOf(each) === name);
  return object && serviceResource.project({ ...object, metadata: { uid: name, ...object.metadata } });
}

function peerObject(object: NodeObject): Peer {
  const own = transportOf(object);
  return {
    name: object.metadata.name,
    podCidrs: object.spec.podCIDRs ?? [],
    transport: Object.fromEntries(own.map(({ family, text }) => [family, text])),
    addresses: own.map(({ text }) => text),
  };
}

/** Names of tunnels in messages. */
export const tunnelTypes = { geneve: 'Geneve', vxlan: 'VXLAN', gre: 'GRE' } as const;

function hopNames(cluster: SimulatedCluster, node: SimulatedNode): HopNames {
  const { gateway, tunnel } = node.environment;
  const byPort = new Map<number, string>([
    [gateway.ofPort, 'the node, through its gateway'],
    [tunnel.ofPort, 'the tunnel'],
    ...node.pods.map(({ name, ofPort }) => [ofPort, `pod ${name}`] as const),
  ]);
  return {
    port: (number) => byPort.get(number) ?? `port ${number}`,
    peerAt: (address) => cluster.peerAt(address),
    podAt: (address) => {
      const pod = cluster.podAt(address);
      return pod && keyOf(pod);
    },
    owner: (cookie) => node.flows.ownerOf(cookie),
    tunnelType: tunnelTypes[tunnel.type],
  };
}
