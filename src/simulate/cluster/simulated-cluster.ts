import { SeineError } from '../../base/errors/seine-error.ts';
import { isIp, parseIp } from '../../base/net/ip.ts';
import type { PeerIntent } from '../../dataplane/compile/compile-peer.ts';
import { PacketState } from '../../dataplane/flow-walk/packet-state.ts';
import { tables } from '../../dataplane/pipeline/tables.ts';
import { clusterNetworkPoliciesOf } from '../../kubernetes/resources/cluster-network-policy.ts';
import { networkPolicies } from '../../kubernetes/resources/network-policy.ts';
import { type PolicyPod, policyPods } from '../../kubernetes/resources/policy-pod.ts';
import type { KernelTranslation } from '../../operations/trace/kernel-paths.ts';
import { PolicyEngine } from '../../policy/engine/policy-engine.ts';
import { isPoliced, keyOf } from '../../policy/reach/objects.ts';
import { withOwnedAddresses } from '../../policy/reach/owned-addresses.ts';
import type { NodeObject, PodObject } from '../../policy/verify/reference/objects.ts';
import type { SimulatedObjects } from '../objects/cluster-objects.ts';
import { completedCluster } from '../objects/completed-cluster.ts';
import { ObjectsIndex } from '../objects/objects-index.ts';
import { placedPods } from '../objects/placed-pods.ts';
import { AddressedFlows } from './addressed-flows.ts';
import { ClusterPeers } from './cluster-peers.ts';
import { FlowLayers } from './flow-layer.ts';
import { type ClusterSettings, compileLayers, partsOf, peerOf, type SimulatedParts, usualSettings } from './node-compiler.ts';
import { ServiceLayers } from './service-layers.ts';
import { serviceNetworks } from './service-networks.ts';

/** Node name of the engine's local pods. No Node has it, because it is not a DNS name. */
const SIMULATED_NODE = '(simulation)';
/** Compiled nodes that are kept. A packet passes two. */
const NODES_KEPT = 4;

/** A compiled node. */
export interface SimulatedNode extends SimulatedParts {
  readonly name: string;
  readonly flows: FlowLayers;
  /** How its kernel translates packets for its addresses. */
  readonly translated: KernelTranslation;
}

/**
 * A cluster computed from its objects. Nodes are compiled when a packet reaches them. Numbers that the API lacks are assigned in the order of names.
 * One policy engine has all objects; the pods of the node that is compiled are its local pods meanwhile.
 */
export class SimulatedCluster {
  /** The objects; those of manifests completed as the API server and controllers would. */
  readonly objects: SimulatedObjects;
  readonly #settings: ClusterSettings;
  readonly #index: ObjectsIndex;
  readonly #engine = new PolicyEngine(SIMULATED_NODE, Number.MAX_SAFE_INTEGER);
  readonly #services: ServiceLayers;
  readonly #nodes: ReadonlyMap<string, NodeObject>;
  readonly #peers: ClusterPeers;
  readonly #podsOfNode: ReadonlyMap<string, readonly PodObject[]>;
  readonly #podsByName = new Map<string, PodObject>();
  readonly #compiled = new Map<string, SimulatedNode>();
  /** Node whose pods are the engine's local ones. */
  #local: string | undefined;

  /**
   * @param known settings of a cluster whose objects these are; absent: the objects are of manifests
   * @throws SeineError `INVALID_INPUT` for an object that cannot be read
   */
  constructor(objects: SimulatedObjects, known?: ClusterSettings) {
    this.objects = known ? withOwnedAddresses(objects) : completedCluster(withOwnedAddresses(placedPods(objects)));
    this.#settings = known ?? usualSettings(serviceNetworks(this.objects));
    const { nodes, pods } = this.objects;
    this.#nodes = new Map(nodes.map((node) => [node.metadata.name, node]));
    this.#peers = new ClusterPeers(nodes.map(peerOf), this.#settings.reach);
    this.#podsOfNode = Map.groupBy(pods.filter(isPoliced), ({ spec }) => spec.nodeName ?? '');
    for (const pod of pods) this.#podsByName.set(keyOf(pod), pod);
    this.#index = new ObjectsIndex(this.objects);
    this.#fillEngine();
    this.#services = new ServiceLayers(this.objects);
  }

  get nodeNames(): readonly string[] {
    return [...this.#nodes.keys()].sort();
  }

  podNamed(name: string): PodObject | undefined {
    return this.#podsByName.get(name);
  }

  podAt(address: string): PodObject | undefined {
    return this.#index.podsAt(address).findLast(isPoliced);
  }

  /** Returns the objects that can matter to packets between addresses. @param through names of nodes that they pass */
  objectsAt(addresses: readonly string[], through: readonly string[] = []): SimulatedObjects {
    return this.#index.objectsAt(addresses, through);
  }

  /** The other nodes, as one reaches them. */
  peersOf(name: string): readonly PeerIntent[] {
    return this.#peers.of(name);
  }

  peerAt(address: string): string | undefined {
    return this.#peers.nameAt(address);
  }

  /** Returns the node that a packet enters first: that of the sender, else of the receiver, else another one. */
  firstNode(from: string, to: string, [first] = this.nodeNames): string {
    const node = this.#nodeOf(from) ?? this.#nodeOf(to) ?? first;
    if (node === undefined) throw new SeineError('INVALID_INPUT', 'the objects have no Node');
    return node;
  }

  #nodeOf(name: string): string | undefined {
    const [, node] = /^node:(.+)$/.exec(name) ?? [];
    if (node !== undefined) return this.#nodes.has(node) ? node : undefined;
    return (isIp(name) ? this.podAt(parseIp(name).text) : this.podNamed(name))?.spec.nodeName;
  }

  /** Returns a compiled node. @throws SeineError `INVALID_INPUT` for a node that does not exist */
  node(name: string): SimulatedNode {
    const known = this.#compiled.get(name);
    const node = known ?? this.#compile(name);
    // The most recent one is last.
    this.#compiled.delete(name);
    this.#compiled.set(name, node);
    for (const oldest of this.#compiled.keys()) {
      if (this.#compiled.size <= NODES_KEPT) break;
      this.#compiled.delete(oldest);
    }
    return node;
  }

  /** Compiles a node, and reads the flows that all nodes have, so that the first packet does not wait for them. */
  async prepare(): Promise<void> {
    const [name] = this.nodeNames;
    if (name === undefined) return;
    const { flows } = this.node(name);
    for (const { id } of Object.values(tables)) await flows.visit(id, () => {}, PacketState.of({}));
  }

  #compile(name: string): SimulatedNode {
    const object = this.#nodes.get(name);
    if (!object) throw new SeineError('INVALID_INPUT', `there is no node ${JSON.stringify(name)}`);
    this.#makeLocal(name);
    const parts = partsOf(object, this.#podsOfNode.get(name) ?? [], this.#settings);
    const own = compileLayers(parts, this.#engine);
    const peers = new AddressedFlows(this.#peers.flowsFor(name, parts.environment));
    const zone = object.metadata.labels?.['topology.kubernetes.io/zone'];
    const place = { name, ...(zone === undefined ? {} : { zone }) };
    const { layer, translated } = this.#services.at(place, parts);
    return { name, ...parts, translated, flows: new FlowLayers([...own, peers, layer, this.#services.common]) };
  }

  #fillEngine(): void {
    const { namespaces, nodes, pods, networkPolicies: policies, clusterNetworkPolicies = [] } = this.objects;
    for (const { metadata } of namespaces) this.#engine.putNamespace(metadata.name, metadata.labels ?? {});
    for (const node of nodes) this.#putNode(node);
    for (const pod of pods) {
      const projected = policyPodOf(pod);
      if (projected) this.#engine.putPod(projected);
    }
    for (const policy of policies) {
      const uid = keyOf(policy);
      const projected = read('NetworkPolicy', uid, () => networkPolicies.project({ ...policy, metadata: { uid, ...policy.metadata } }));
      if (projected) this.#engine.putPolicy(projected);
    }
    for (const policy of clusterNetworkPolicies) {
      const uid = policy.metadata.name;
      const projected = read('ClusterNetworkPolicy', uid, () =>
        clusterNetworkPoliciesOf('v1beta1').project({ ...policy, metadata: { uid, ...policy.metadata } }),
      );
      if (projected) this.#engine.putClusterPolicy(projected);
    }
    this.#engine.update();
  }

  #putNode({ metadata, spec, status }: NodeObject): void {
    this.#engine.putNode({
      name: metadata.name,
      labels: metadata.labels ?? {},
      podCidrs: spec.podCIDRs ?? [],
      addresses: status.addresses.flatMap(({ address }) => (isIp(address) ? [parseIp(address).text] : [])),
    });
  }

  /** Makes the pods of a node the local ones of the engine. Its Node object stays: rows of policy do not depend on which one is local. */
  #makeLocal(name: string): void {
    if (this.#local === name) return;
    if (this.#local !== undefined) this.#putPodsOf(this.#local, this.#local);
    this.#putPodsOf(name, SIMULATED_NODE);
    this.#engine.update();
    this.#local = name;
  }

  #putPodsOf(name: string, nodeName: string): void {
    for (const pod of this.#podsOfNode.get(name) ?? []) {
      const known = policyPodOf(pod);
      if (known) this.#engine.putPod({ ...known, nodeName });
    }
  }
}

function policyPodOf(pod: PodObject): PolicyPod | undefined {
  return read('Pod', keyOf(pod), () => policyPods.project(pod));
}

function read<T>(kind: string, name: string, project: () => T): T {
  try {
    return project();
  } catch (thrown) {
    throw new SeineError('INVALID_INPUT', `${kind} ${name}: ${SeineError.from(thrown, 'parse').rawMessage}`, { cause: thrown });
  }
}
