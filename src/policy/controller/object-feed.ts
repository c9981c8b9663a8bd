import type { LoopTurns } from '../../base/async/loop-turns.ts';
import type { Replica } from '../../kubernetes/client/replica/replica.ts';
import type { Namespace } from '../../kubernetes/resources/namespace.ts';
import type { NetworkPolicy } from '../../kubernetes/resources/network-policy.ts';
import type { Node } from '../../kubernetes/resources/node.ts';
import type { PolicyPod } from '../../kubernetes/resources/policy-pod.ts';
import type { PolicyEngine } from '../engine/policy-engine.ts';

/** What policy is computed from, each a copy of what the API server has. */
export interface PolicySources {
  readonly namespaces: Replica<Namespace>;
  readonly nodes: Replica<Node>;
  readonly policies: Replica<NetworkPolicy>;
  /** Of the whole cluster. */
  readonly pods: Replica<PolicyPod>;
}

/** Networks of nodes' pods, as far as the nodes may have them. */
export interface NodeNetworks {
  /** Undefined: of this node, whose Node object is right. */
  of(name: string): readonly string[] | undefined;
  /** Compares Nodes that changed. @returns nodes of which `of` may have another answer */
  settle(turns: LoopTurns): Promise<Iterable<string>>;
  /** Calls back with such nodes where no Node has changed. @returns a function that ends it */
  subscribe(listener: (names: Iterable<string>) => void): () => void;
}

interface ObjectFeedOptions {
  readonly engine: PolicyEngine;
  readonly sources: PolicySources;
  readonly nodeNetworks: NodeNetworks;
  /** Pods of this node are put by who attaches them, and knows them sooner. @param key `namespace/name` */
  readonly isLocal: (key: string, pod: PolicyPod) => boolean;
  readonly turns: LoopTurns;
  /** Something has to be worked off. */
  readonly changed: () => void;
}

type ObjectKind = keyof PolicySources;
const kinds: readonly ObjectKind[] = ['namespaces', 'nodes', 'policies', 'pods'];

/** Puts into the engine what the API server has: names are noted as they change, and read when it is their turn. */
export class ObjectFeed {
  readonly #options: ObjectFeedOptions;
  readonly #dirty: Readonly<Record<ObjectKind, Set<string>>> = {
    namespaces: new Set(),
    nodes: new Set(),
    policies: new Set(),
    pods: new Set(),
  };
  /** Put as of the cluster's list. */
  readonly #pods = new Set<string>();

  constructor(options: ObjectFeedOptions) {
    this.#options = options;
  }

  /** Takes what is there, and follows it. @returns a function that ends it */
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
   * A pod is put by who attaches it from now on. It may have come from another node under its name, and the cluster's list tells later, or
   * never, that it is not there any more: that takes nothing away here.
   */
  leaveTo(pod: string): void {
    this.#pods.delete(pod);
  }

  /** A pod of this node is here no longer: whether the cluster's list counts for it is another question now. */
  lookAgain(pod: string): void {
    this.#pods.delete(pod);
    this.#dirty.pods.add(pod);
    this.#options.changed();
  }

  /** Puts all that waits, in turns. */
  async work(): Promise<void> {
    const { turns, nodeNetworks } = this.#options;
    for (const name of await nodeNetworks.settle(turns)) this.#dirty.nodes.add(name);
    for (const kind of kinds)
      for (const key of this.#dirty[kind]) {
        this.#put(kind, key);
        if (turns.due) await turns.next();
      }
  }

  /** Puts policies of a pod's namespace at once: a pod that starts must not be free of a policy that is known. @param pod `namespace/name` */
  workOnRules(pod: string): void {
    const namespace = pod.slice(0, pod.indexOf('/') + 1);
    for (const key of this.#dirty.policies) if (key.startsWith(namespace)) this.#put('policies', key);
  }

  #put(kind: ObjectKind, key: string): void {
    this.#dirty[kind].delete(key);
    if (kind === 'namespaces') this.#putNamespace(key);
    else if (kind === 'nodes') this.#putNode(key);
    else if (kind === 'policies') this.#putPolicy(key);
    else this.#putPod(key);
  }

  #putNamespace(key: string): void {
    const { engine, sources } = this.#options;
    const namespace = sources.namespaces.get(key);
    if (namespace) engine.putNamespace(key, namespace.labels);
    else engine.removeNamespace(key);
  }

  #putNode(key: string): void {
    const { engine, sources, nodeNetworks } = this.#options;
    const node = sources.nodes.get(key);
    if (node) engine.putNode({ name: key, podCidrs: nodeNetworks.of(key) ?? node.podCidrs, addresses: addressesOf(node) });
    else engine.removeNode(key);
  }

  #putPolicy(key: string): void {
    const { engine, sources } = this.#options;
    const policy = sources.policies.get(key);
    if (policy) engine.putPolicy(policy);
    else engine.removePolicy(key);
  }

  #putPod(key: string): void {
    const { engine, sources, isLocal } = this.#options;
    const pod = sources.pods.get(key);
    if (pod && !isLocal(key, pod)) {
      engine.putPod(pod);
      this.#pods.add(key);
    } else if (this.#pods.delete(key)) engine.removePod(key);
  }
}

/** All that a rule's block may mean the node by. */
export function addressesOf({ internalIps, externalIps = [] }: Pick<Node, 'internalIps' | 'externalIps'>): readonly string[] {
  return [...internalIps, ...externalIps];
}
