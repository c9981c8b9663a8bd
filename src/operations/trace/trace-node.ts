import type { ConnectionPolicyView } from '../../api/policy.ts';
import type { FamilyTrace, NodeTrace, TracedConnection } from '../../api/trace.ts';
import { Turn } from '../../base/async/turn.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { parseIp } from '../../base/net/ip.ts';
import type { NodeEnvironment } from '../../dataplane/compile/environment.ts';
import type { InstalledFlow } from '../../dataplane/flow-walk/installed-flow.ts';
import type { NodeState } from '../../dataplane/targets/node-state.ts';
import type { Peer, PeerSource } from '../../kubernetes/resources/peer-source.ts';
import type { PolicyPod } from '../../kubernetes/resources/policy-pod.ts';
import type { Service } from '../../kubernetes/resources/service.ts';
import type { OpenFlowConnection } from '../../openflow/connection/connection.ts';
import { printFlow } from '../../openflow/text/flow-text.ts';
import type { Ipam } from '../../pods/ipam/ipam.ts';
import { type Lease, podName } from '../../pods/ipam/lease.ts';
import { translationAt } from '../../services/controller/service-firewall.ts';
import type { NodeReader } from '../diagnose/entries/node-reader.ts';
import { type EarlierConnection, earlierConnection } from './earlier-connection.ts';
import { familyTrace } from './family-trace.ts';
import type { HopNames } from './hop-text.ts';
import { type KernelTranslation, kernelPaths, type ReachedPeers } from './kernel-paths.ts';
import { endsOf } from './trace-ends.ts';
import { DesiredFlows, FlowsInSwitch, withLearned } from './trace-flows.ts';
import type { TraceNode } from './trace-paths.ts';
import { type TraceNames, traceQuestion } from './trace-question.ts';

interface TracedParts {
  readonly ipam: Pick<Ipam, 'leases'>;
  readonly environment: NodeEnvironment;
  readonly peers: ReachedPeers;
}

/** Parts of the agent that name nodes, pods and Services. */
export interface NamingPort {
  readonly config: { readonly nodeName: string };
  readonly reader: Pick<NodeReader, 'interfaceState' | 'flowWords'>;
  readonly peers: Pick<PeerSource, 'get' | 'peers'>;
  readonly nodeState: { readonly firewall: Pick<NodeState['firewall'], 'wanted'> };
  readonly sources: {
    readonly policyPods: {
      readonly replica: { get(key: string): PolicyPod | undefined; entries(): Iterable<readonly [string, PolicyPod]> };
    };
    readonly services: { readonly replica: { get(key: string): Service | undefined } };
  };
  /** @throws SeineError `UNAVAILABLE` until the node is known */
  readonly running: () => TracedParts;
}

export interface TracePort extends NamingPort {
  readonly openflow: Pick<OpenFlowConnection, 'dumpFlows' | 'dumpGroups'>;
  readonly nodeState: NamingPort['nodeState'] & { readonly bridge: Pick<NodeState['bridge'], 'keys' | 'wanted'> };
  /** Explains the decision of policies. @param port `80/TCP`, or another protocol without ports */
  readonly policyOf: (from: string, to: string, port: string) => ConnectionPolicyView | undefined;
  /** Looks for an established connection in what the node knows. */
  readonly connectionOf: (asked: EarlierConnection) => Promise<TracedConnection>;
}

/** Traces of a bridge, one at a time: reading it takes OVS up to half a second. */
interface TraceQueue {
  readonly turn: Turn<undefined>;
  length: number;
}
const queues = new WeakMap<object, TraceQueue>();
/** Maximum number of traces that run or wait. */
const QUEUE_MAX = 8;

/**
 * Traces a packet through this node: `?from=…&to=…`, and `port`, `family`, `source-port`, `established`.
 *
 * @throws SeineError `INVALID_INPUT` that names the field and the value, `UNAVAILABLE` if OVS is not connected, or if many other traces wait
 */
export async function tracedNode(port: TracePort, query: URLSearchParams, signal: AbortSignal): Promise<NodeTrace> {
  const { environment: before, ipam } = port.running();
  const question = traceQuestion(query, namesOf(port, before, ipam.leases()));
  const queue = queues.get(port.openflow) ?? { turn: new Turn(undefined), length: 0 };
  queues.set(port.openflow, queue);
  if (queue.length >= QUEUE_MAX) throw new SeineError('UNAVAILABLE', 'many other traces wait on this node; repeat the command');
  queue.length++;
  const work = async (): Promise<NodeTrace> => {
    signal.throwIfAborted();
    const { environment } = port.running();
    const leases = ipam.leases();
    const read = await traceNodeOf(port, environment, leases, signal);
    const node = { ...read, policyFor: policiesOf(port, read) };
    const traces: FamilyTrace[] = [];
    for (const ends of question.families.flatMap((family) => endsOf(question, family))) {
      const startedMs = performance.now();
      const known = question.isEstablished ? await port.connectionOf(earlierConnection(question, ends)) : undefined;
      const trace = await familyTrace(node, question, ends, {
        ...{ environment, leases, translated: translatedBy(port) },
        ...(known && { known }),
      });
      traces.push({ ...trace, milliseconds: Math.round(performance.now() - startedMs) });
    }
    return { node: port.config.nodeName, traces };
  };
  return await queue.turn.take(work).finally(() => queue.length--);
}

/** Returns a function that returns the decision of policies: about the endpoint, where a Service translates the packet. */
function policiesOf({ policyOf }: TracePort, { names }: TraceNode): NonNullable<TraceNode['policyFor']> {
  const nameAt = (address: string): string => names.podAt(address) ?? address;
  return ({ source }, { destination, destinationPort, protocol }) => {
    const port = destinationPort === undefined ? protocol : `${destinationPort}/${protocol}`;
    const policy = policyOf(nameAt(source), nameAt(destination), port);
    // A pod's name stands for its addresses of both families.
    return policy && { ...policy, ends: policy.ends.filter(({ from }) => parseIp(from).family === parseIp(source).family) };
  };
}

export function namesOf(
  { config, peers, sources, reader, nodeState }: NamingPort,
  environment: NodeEnvironment,
  leases: readonly Lease[],
): TraceNames {
  return {
    node: config.nodeName,
    leases,
    environment,
    portOf: ({ attached }) => (attached ? reader.interfaceState(attached.hostIfName)?.ofPort : undefined),
    podElsewhere: (name) => sources.policyPods.replica.get(name),
    service: (name) => sources.services.replica.get(name),
    peer: (name) => peers.get(name),
    translated: translatedBy({ nodeState }),
  };
}

/** Translations that the agent wants in the node's nftables rules; `seinectl check` compares them with those that are there. */
export function translatedBy({ nodeState: { firewall } }: Pick<NamingPort, 'nodeState'>): KernelTranslation {
  return (ip, transport, port) => translationAt((key) => firewall.wanted(key), transport, { ip, port });
}

/** Returns a function that returns where the kernel sends packets on. */
export function onwardOf(port: NamingPort, environment: NodeEnvironment): TraceNode['onward'] {
  return kernelPaths(port.running().peers, { node: port.config.nodeName, environment, translated: translatedBy(port) });
}

async function traceNodeOf(
  port: TracePort,
  environment: NodeEnvironment,
  leases: readonly Lease[],
  signal: AbortSignal,
): Promise<TraceNode> {
  const { openflow, nodeState, reader } = port;
  const words = await reader.flowWords();
  const bridge = new FlowsInSwitch(openflow, signal);
  return {
    bridge,
    desired: withLearned(new DesiredFlows(nodeState.bridge), bridge),
    names: hopNames(port, environment, leases, words.ownerOf),
    gateway: environment.gateway.ofPort,
    tunnel: environment.tunnel.ofPort,
    onward: onwardOf(port, environment),
    flowText: (flow: InstalledFlow) => printFlow({ ...flow, idleTimeout: 0, hardTimeout: 0, flags: 0, importance: 0 }, words.names),
  };
}

export function hopNames(
  { reader, peers, sources }: NamingPort,
  { gateway, tunnel }: NodeEnvironment,
  leases: readonly Lease[],
  owner: HopNames['owner'],
): HopNames {
  const byPort = new Map<number, string>([
    [gateway.ofPort, 'the node, through its gateway'],
    [tunnel.ofPort, 'the tunnel'],
  ]);
  const byAddress = new Map<string, string>();
  for (const lease of leases.filter(({ state }) => state === 'allocated')) {
    const number = lease.attached && reader.interfaceState(lease.attached.hostIfName)?.ofPort;
    if (number !== undefined) byPort.set(number, `pod ${podName(lease)}`);
    for (const { ip } of lease.addresses) byAddress.set(ip.text, podName(lease));
  }
  const byTunnel = new Map<string, string>();
  for (const { name, transport } of peers.peers() as Iterable<Peer>)
    for (const address of Object.values(transport)) byTunnel.set(parseIp(address).text, name);
  return {
    port: (number) => byPort.get(number) ?? `port ${number}`,
    peerAt: (address) => byTunnel.get(address),
    podAt: (address) => byAddress.get(address) ?? podOfCluster(sources.policyPods.replica.entries(), address),
    owner,
    tunnelType: { geneve: 'Geneve', vxlan: 'VXLAN', gre: 'GRE' }[tunnel.type],
  };
}

function podOfCluster(pods: Iterable<readonly [string, PolicyPod]>, address: string): string | undefined {
  for (const [, { namespace, name, podIps }] of pods) if (podIps.includes(address)) return `${namespace}/${name}`;
  return undefined;
}
