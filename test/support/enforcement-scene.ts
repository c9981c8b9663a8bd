import { LoopTurns } from '../../src/base/async/loop-turns.ts';
import { silentLog } from '../../src/base/log/log.ts';
import { parseIp } from '../../src/base/net/ip.ts';
import { nothing, type Wanted } from '../../src/dataplane/desired/host-entries.ts';
import { type Owner, ownerOf } from '../../src/dataplane/pipeline/cookie.ts';
import type { NumberedRow } from '../../src/dataplane/pipeline/flow-pattern.ts';
import type { PodWanted, Revisions } from '../../src/dataplane/targets/node-state.ts';
import { ReplicaStore } from '../../src/kubernetes/client/replica/replica.ts';
import type { ClusterNetworkPolicy } from '../../src/kubernetes/resources/cluster-network-policy.ts';
import type { Namespace } from '../../src/kubernetes/resources/namespace.ts';
import { type NetworkPolicy, networkPolicies } from '../../src/kubernetes/resources/network-policy.ts';
import type { Node } from '../../src/kubernetes/resources/node.ts';
import type { PolicyPod } from '../../src/kubernetes/resources/policy-pod.ts';
import type { LocalPodFacts, LocalSubject } from '../../src/policy/controller/local-subjects.ts';
import type { NodeNetworks } from '../../src/policy/controller/object-feed.ts';
import { PolicyController, type PolicyControllerOptions } from '../../src/policy/controller/policy-controller.ts';
import { PolicyFlows } from '../../src/policy/flows/policy-flows.ts';

/** Every node may have the networks of its Node. */
export const undisputedNetworks: NodeNetworks = {
  of: () => undefined,
  settle: () => Promise.resolve([]),
  subscribe: () => () => undefined,
};

/** A desired state whose bridge has exactly the entries that the test acknowledges, when it does. */
export class RecordingBridge {
  readonly wanted = new Map<Owner, Wanted>();
  /** Writes since the last call, in order. */
  readonly calls: string[] = [];
  readonly bridge = { revision: 0 };
  realizedRevision = 0;
  /** True if everything is acknowledged immediately. */
  isQuick = true;
  readonly #waiting: { readonly revision: number; readonly go: () => void }[] = [];
  /** Owners whose entries OVS has. */
  readonly #has = new Set<Owner>();
  readonly reconcilers: PolicyControllerOptions['nodeState']['reconcilers'] = { bridge: this };

  want(owner: Owner, wanted: Wanted): Revisions {
    this.wanted.set(owner, wanted);
    return this.#change(owner, `want ${owner}`);
  }

  wantRow(owner: Owner, { rows, ip, number }: NumberedRow): Revisions {
    return this.want(owner, { ...nothing, flows: [rows.flowOf(ip, number)] });
  }

  wantPod(owner: Owner, wanted: PodWanted): Revisions {
    return this.want(owner, 'pattern' in wanted ? { ...nothing, flows: wanted.pattern(wanted.place) } : wanted);
  }

  forget(owner: Owner): Revisions {
    this.wanted.delete(owner);
    return this.#change(owner, `forget ${owner}`);
  }

  async realized({ bridge: revision }: Revisions): Promise<void> {
    if (this.realizedRevision < revision) await new Promise<void>((go) => this.#waiting.push({ revision, go }));
  }

  isHeld(owner: Owner): boolean {
    return this.#has.has(owner);
  }

  async held(owners: Iterable<Owner>): Promise<void> {
    const { revision } = this.bridge;
    while (![...owners].every((owner) => this.isHeld(owner))) await new Promise<void>((go) => this.#waiting.push({ revision, go }));
  }

  together(work: () => void): void {
    this.calls.push('together');
    work();
    this.calls.push('apart');
  }

  failures(): readonly never[] {
    return [];
  }

  /** True if the bridge was observed since the last acknowledgement. */
  isLookedAt = false;

  /** Drops an owner's entries. */
  lose(owner: Owner): void {
    this.#has.delete(owner);
  }

  hasPolicyLeftovers(): boolean {
    this.isLookedAt = true;
    return false;
  }

  acknowledge(): void {
    this.realizedRevision = this.bridge.revision;
    for (const owner of this.wanted.keys()) this.#has.add(owner);
    for (const { go } of this.#waiting.splice(0)) go();
  }

  get isAwaited(): boolean {
    return this.#waiting.length > 0;
  }

  /** Writes of these kinds since the last call: `class`, `subject` … */
  take(...kinds: readonly string[]): readonly string[] {
    const words = this.calls.splice(0).map((line) => line.replace(/\/[0-9a-f]{16,}.*/, '').replace(/^(\w+) policy\/\w+\/(\w+).*/, '$1 $2'));
    return words.filter((line) => kinds.some((kind) => line.includes(` ${kind}`)));
  }

  /** Acknowledges rows of policy, and nothing else. */
  acknowledgeRows(): void {
    for (const owner of this.wanted.keys()) if (owner.startsWith('policy/')) this.#has.add(owner);
    for (const { go } of this.#waiting.splice(0)) go();
  }

  #change(owner: Owner, line: string): Revisions {
    this.calls.push(line);
    this.#has.delete(owner);
    this.bridge.revision++;
    if (this.isQuick) this.acknowledge();
    return { owner, bridge: this.bridge.revision, host: -1 };
  }
}

export const web: LocalSubject = {
  owner: ownerOf('subject', 'shop', 'web', 'eth0@a'),
  ofPort: 7,
  addresses: [parseIp('10.10.0.7')],
  pod: { namespace: 'shop', name: 'web', uid: 'u' },
};
export const second: LocalSubject = {
  ...web,
  owner: ownerOf('subject', 'shop', 'two', 'eth0@b'),
  ofPort: 8,
  addresses: [parseIp('10.10.0.8')],
  pod: { namespace: 'shop', name: 'two', uid: 'v' },
};
export const denyAll = policy('deny-all', { podSelector: {}, policyTypes: ['Ingress'] });

export function policy(name: string, spec: object): NetworkPolicy {
  const projected = networkPolicies.project({ metadata: { namespace: 'shop', name, uid: name, generation: 1 }, spec });
  if (!projected) throw new Error('no policy');
  return projected;
}

/** A node whose bridge is a `RecordingBridge`, in a cluster with only the objects added here. */
export class EnforcementScene {
  readonly bridge = new RecordingBridge();
  readonly policies = new ReplicaStore<NetworkPolicy>();
  readonly pods = new ReplicaStore<PolicyPod>();
  /** Facts by the name of a pod. */
  readonly facts = new Map<string, LocalPodFacts>(['web', 'two'].map((name) => [name, { labels: { app: name }, ports: {} }]));
  areRulesKnown = true;
  readonly #stop = new AbortController();
  #version = 0;

  async enforce(more: Partial<PolicyControllerOptions> = {}): Promise<PolicyController> {
    const { bridge, policies, pods, facts } = this;
    const sources = {
      policies,
      clusterPolicies: new ReplicaStore<ClusterNetworkPolicy>(),
      namespaces: new ReplicaStore<Namespace>(),
      nodes: new ReplicaStore<Node>(),
      pods,
    };
    const enforcement = new PolicyController({
      nodeName: 'n1',
      sources,
      nodeNetworks: undisputedNetworks,
      rulesKnown: () => this.areRulesKnown,
      areAddressesKnown: () => false,
      factsOf: ({ name }) => facts.get(name),
      flows: new PolicyFlows({ families: ['ipv4'] }),
      nodeState: bridge,
      suspensions: { of: () => undefined, endedAway: () => false },
      whenUnknown: 'closed',
      serviceOpenings: 2_000,
      mode: () => 'enforce',
      bridgeBefore: 'with policy',
      turns: new LoopTurns(5),
      log: silentLog,
      signal: this.#stop.signal,
      ...more,
    });
    this.#stop.signal.addEventListener('abort', enforcement.follow());
    await enforcement.settled();
    bridge.calls.length = 0;
    return enforcement;
  }

  end(): void {
    this.#stop.abort();
  }

  put(object: NetworkPolicy): void {
    this.policies.put(`${object.namespace}/${object.name}`, String(++this.#version), object);
    this.policies.flush();
  }

  remove({ namespace, name }: NetworkPolicy): void {
    this.policies.remove(`${namespace}/${name}`, String(++this.#version));
    this.policies.flush();
  }

  /** Sets `shop/web` in the list of the cluster's pods, or removes it. */
  listWeb(pod: PolicyPod | undefined): void {
    if (pod) this.pods.put('shop/web', String(++this.#version), pod);
    else this.pods.remove('shop/web', String(++this.#version));
    this.pods.flush();
  }
}

/** State of a pod in policy; undefined if it is not known. */
export function standingOf(enforcement: PolicyController, pod = 'shop/web') {
  return enforcement.pods().get(pod)?.is;
}
