import type { LoopTurns } from '../../base/async/loop-turns.ts';
import type { Replica } from '../../kubernetes/client/replica/replica.ts';
import type { ClusterNetworkPolicy } from '../../kubernetes/resources/cluster-network-policy.ts';
import type { Namespace } from '../../kubernetes/resources/namespace.ts';
import type { NetworkPolicy } from '../../kubernetes/resources/network-policy.ts';
import type { Node } from '../../kubernetes/resources/node.ts';
import type { PolicyPod } from '../../kubernetes/resources/policy-pod.ts';
import type { PolicyEngine } from '../engine/policy-engine.ts';
import type { RecentAddresses } from './recent-addresses.ts';

/** Sources of policy: copies of objects in the API server. */
export interface PolicySources {
  readonly namespaces: Replica<Namespace>;
  readonly nodes: Replica<Node>;
  readonly policies: Replica<NetworkPolicy>;
  readonly clusterPolicies: Replica<ClusterNetworkPolicy>;
  /** Pods of the whole cluster. */
  readonly pods: Replica<PolicyPod>;
}

/** Pod networks that nodes may have. */
export interface NodeNetworks {
  /** Returns the networks of a node; undefined for this node, whose Node object is right. */
  of(name: string): readonly string[] | undefined;
  /** Compares changed Nodes. @returns names of nodes for which the result of `of` may have changed */
  settle(turns: LoopTurns): Promise<Iterable<string>>;
  /** Calls `listener` with names of such nodes if no Node object has changed. @returns a function that ends the subscription */
  subscribe(listener: (names: Iterable<string>) => void): () => void;
}

interface ObjectFeedOptions {
  readonly engine: PolicyEngine;
  readonly sources: PolicySources;
  readonly nodeNetworks: NodeNetworks;
  /**
   * Reports whether a pod is attached here. Such pods are put into the engine by the attaching code, which knows them sooner.
   *
   * @param key `namespace/name`
   */
  readonly isLocal: (key: string, pod: PolicyPod) => boolean;
  readonly recent: Pick<RecentAddresses, 'note'>;
  readonly turns: LoopTurns;
  /** Called when there is work to do. */
  readonly changed: () => void;
}

type ObjectKind = keyof PolicySources;
const kinds: readonly ObjectKind[] = ['namespaces', 'nodes', 'policies', 'clusterPolicies', 'pods'];

/** Puts objects of the API server into the engine: notes names as they change, and reads the objects later, in turns. */
export class ObjectFeed {
  readonly #options: ObjectFeedOptions;
  readonly #dirty: Readonly<Record<ObjectKind, Set<string>>> = {
    namespaces: new Set(),
    nodes: new Set(),
    policies: new Set(),
    clusterPolicies: new Set(),
    pods: new Set(),
  };
  /** Pods that were put from the cluster's list. */
  readonly #pods = new Set<string>();

  constructor(options: ObjectFeedOptions) {
    this.#options = options;
  }

  /** Takes the current objects and follows their changes. @returns a function that ends it */
  follow(): () => void {
    const { sources, nodeNetworks, changed } = this.#options;
    const noteOf =
      (kind: ObjectKind) =>
      (keys: Iterable<string>): void => {
        for (const key of keys) this.#dirty[kind].add(key);
        changed();
      };
    const ends = kinds.map((kind) => {
      noteOf(kind)([...sources[kind].entries()].map(([key]) => key));
      return sources[kind].subscribe(noteOf(kind));
    });
    ends.push(nodeNetworks.subscribe(noteOf('nodes')));
    return () => {
      for (const end of ends) end();
    };
  }

  get isBehind(): boolean {
    return kinds.some((kind) => this.#dirty[kind].size > 0);
  }

  /**
   * Leaves a pod to the attaching code. The name may have belonged to a pod of another node whose removal the cluster's list reports later,
   * or never; that removal must not remove the pod here.
   */
  leaveTo(pod: string): void {
    this.#pods.delete(pod);
  }

  /** Processes a pod of the cluster's list again after its attachment here has ended. */
  checkAgain(pod: string): void {
    this.#pods.delete(pod);
    this.#dirty.pods.add(pod);
    this.#options.changed();
  }

  /** Puts all waiting objects into the engine, in turns. */
  async work(): Promise<void> {
    const { turns, nodeNetworks } = this.#options;
    for (;;) {
      // Also after the last object: a node that changes meanwhile may decide about the networks of nodes that were put before it.
      for (const name of await nodeNetworks.settle(turns)) this.#dirty.nodes.add(name);
      if (!this.isBehind) return;
      for (const kind of kinds)
        for (const key of this.#dirty[kind]) {
          this.#put(kind, key);
          if (turns.due) await turns.next();
        }
    }
  }

  /**
   * Puts the policies of a pod's namespace, its labels and cluster policies into the engine at once: a starting pod must not bypass a known
   * policy.
   *
   * @param pod `namespace/name`
   */
  workOnRules(pod: string): void {
    const namespace = pod.slice(0, pod.indexOf('/') + 1);
    for (const key of this.#dirty.policies) if (key.startsWith(namespace)) this.#put('policies', key);
    for (const key of this.#dirty.clusterPolicies) this.#put('clusterPolicies', key);
    const name = namespace.slice(0, -1);
    if (this.#dirty.namespaces.has(name)) this.#put('namespaces', name);
  }

  #put(kind: ObjectKind, key: string): void {
    this.#dirty[kind].delete(key);
    if (kind === 'namespaces') this.#putNamespace(key);
    else if (kind === 'nodes') this.#putNode(key);
    else if (kind === 'policies') this.#putPolicy(key);
    else if (kind === 'clusterPolicies') this.#putClusterPolicy(key);
    else this.#putPod(key);
  }

  #putNamespace(key: string): void {
    const { engine, sources } = this.#options;
    const namespace = sources.namespaces.get(key);
    if (namespace) engine.putNamespace(key, namespace.labels, namespace.denied);
    else engine.removeNamespace(key);
  }

  #putNode(key: string): void {
    const { engine, sources, nodeNetworks } = this.#options;
    const node = sources.nodes.get(key);
    if (node)
      engine.putNode({
        name: key,
        podCidrs: nodeNetworks.of(key) ?? node.podCidrs,
        addresses: addressesOf(node),
        labels: node.labels ?? {},
      });
    else engine.removeNode(key);
  }

  #putPolicy(key: string): void {
    const { engine, sources } = this.#options;
    const policy = sources.policies.get(key);
    if (policy) engine.putPolicy(policy);
    else engine.removePolicy(key);
  }

  #putClusterPolicy(key: string): void {
    const { engine, sources } = this.#options;
    const policy = sources.clusterPolicies.get(key);
    if (policy) engine.putClusterPolicy(policy);
    else engine.removeClusterPolicy(key);
  }

  #putPod(key: string): void {
    const { engine, sources, isLocal, recent } = this.#options;
    const pod = sources.pods.get(key);
    if (pod && !isLocal(key, pod)) {
      recent.note(key, pod.podIps);
      engine.putPod(pod);
      this.#pods.add(key);
    } else if (this.#pods.delete(key)) engine.removePod(key);
  }
}

/** Returns all addresses by which a block may include the node. */
export function addressesOf({ internalIps, externalIps = [] }: Pick<Node, 'internalIps' | 'externalIps'>): readonly string[] {
  return [...internalIps, ...externalIps];
}
