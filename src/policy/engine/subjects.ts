import { finish, type Steps } from '../../base/async/steps.ts';
import { parseIp } from '../../base/net/ip.ts';
import type { ClusterNetworkPolicy } from '../../kubernetes/resources/cluster-network-policy.ts';
import type { NetworkPolicy } from '../../kubernetes/resources/network-policy.ts';
import type { PolicyPod } from '../../kubernetes/resources/policy-pod.ts';
import {
  type ClusterClasses,
  classesIn,
  clusterTiers,
  haveSameClasses,
  type MatrixSubject,
  type PolicyDirection,
  policyDirections,
  type SubjectClass,
} from '../matrix/matrix.ts';
import type { ClusterIntent } from './cluster-intent.ts';
import { ClusterPolicies } from './cluster-policies.ts';
import type { UnknownPeers } from './cluster-rules.ts';
import { mentionedNames, type PolicyIntent, policyIntent } from './intent.ts';
import { addTo, type IndexedPod, type NamespaceLabels, type PodKinds, removeFrom } from './kinds.ts';
import type { Membership } from './membership.ts';
import { SteadyRows } from './published-rows.ts';
import { RecentRules } from './recent-rules.ts';
import type { Relations } from './relations.ts';
import { labelText, matchesLabels, selectorOf } from './selector.ts';
import type { SubjectRules } from './subject-rules.ts';

interface SubjectsOptions {
  readonly nodeName: string;
  readonly kinds: PodKinds;
  readonly namespaces: NamespaceLabels;
  readonly unknownPeers?: UnknownPeers | undefined;
  readonly directions: Readonly<Record<PolicyDirection, { readonly membership: Membership; readonly relations: Relations }>>;
}

/** Policy that is compiled only once a pod of its namespace is on this node. */
interface KnownPolicy {
  readonly policy: NetworkPolicy;
  intent?: PolicyIntent;
}

/** Pods of this node and the policies that isolate them: the classes of each pod. */
export class Subjects {
  readonly rows = new SteadyRows<MatrixSubject>();
  readonly #rules: RecentRules;
  readonly #options: SubjectsOptions;
  readonly #cluster: ClusterPolicies;
  readonly #policies = new Map<string, Map<string, KnownPolicy>>();
  /**
   * Policies by namespace with local pods, and by a label that each of their pods must have, or `''` if there is none. Filled on demand.
   */
  readonly #byLabel = new Map<string, Map<string, Set<KnownPolicy>>>();
  readonly #local = new Map<string, Set<string>>();
  readonly #dirty = new Set<string>();
  /** Answers to denied clients by namespace, where one is stated. */
  readonly #denials = new Map<string, NonNullable<SubjectRules['denial']>>();
  /** Classes to release once all new ones are acquired. */
  #released: (readonly [PolicyDirection, SubjectClass])[] = [];

  constructor(options: SubjectsOptions) {
    this.#options = options;
    this.#rules = new RecentRules(options.unknownPeers);
    this.#cluster = new ClusterPolicies(options.namespaces, options.kinds);
  }

  get isBehind(): boolean {
    return this.#dirty.size > 0 || this.#released.length > 0;
  }

  /** Notes that a pod of this node was added or changed. */
  put(key: string, namespace: string): void {
    this.#dirty.add(key);
    const local = this.#local.get(namespace) ?? new Set();
    this.#local.set(namespace, local.add(key));
  }

  remove(key: string, namespace: string): void {
    const local = this.#local.get(namespace);
    if (!local?.delete(key)) return;
    this.#dirty.add(key);
    if (local.size > 0) return;
    this.#local.delete(namespace);
    this.#byLabel.delete(namespace);
  }

  putPolicy(policy: NetworkPolicy): void {
    const { namespace, name } = policy;
    this.removePolicy(`${namespace}/${name}`);
    this.#options.kinds.mention(mentionedNames(policy), 1);
    const policies = this.#policies.get(namespace) ?? new Map<string, KnownPolicy>();
    const known: KnownPolicy = { policy };
    this.#policies.set(namespace, policies.set(name, known));
    const index = this.#byLabel.get(namespace);
    if (index) addTo(index, placeOf(policy), known);
    this.#touch(policy);
  }

  /** Removes a policy. @param key `namespace/name` */
  removePolicy(key: string): void {
    const [namespace = '', name = ''] = key.split('/');
    const policies = this.#policies.get(namespace);
    const known = policies?.get(name);
    if (!policies || !known) return;
    this.#options.kinds.mention(mentionedNames(known.policy), -1);
    if (known.intent) this.#rules.forget(known.intent);
    policies.delete(name);
    const index = this.#byLabel.get(namespace);
    if (index) removeFrom(index, placeOf(known.policy), known);
    if (policies.size === 0) this.#policies.delete(namespace);
    this.#touch(known.policy);
  }

  putClusterPolicy(policy: ClusterNetworkPolicy): void {
    this.removeClusterPolicy(policy.name);
    this.#touchCluster(this.#cluster.put(policy));
  }

  removeClusterPolicy(name: string): void {
    const intent = this.#cluster.remove(name);
    if (!intent) return;
    this.#rules.forget(intent);
    this.#touchCluster(intent);
  }

  /** Sets the answer to clients that the isolation of the pods of a namespace denies; undefined: as the node is configured. */
  setDenial(namespace: string, denial: SubjectRules['denial']): void {
    if (this.#denials.get(namespace) === denial) return;
    if (denial) this.#denials.set(namespace, denial);
    else this.#denials.delete(namespace);
    for (const key of this.#local.get(namespace) ?? []) this.#dirty.add(key);
  }

  /** Marks the local pods of a namespace whose labels have changed: subjects of cluster policies are selected by them. */
  relabel(namespace: string): void {
    if (this.#cluster.size > 0) for (const key of this.#local.get(namespace) ?? []) this.#dirty.add(key);
  }

  hasPolicies(namespace: string): boolean {
    return this.#policies.has(namespace) || this.#cluster.mayApplyIn(namespace);
  }

  /** Reports whether cluster policies may apply to pods of a namespace whose labels are not known. */
  lacksNamespace(namespace: string): boolean {
    return this.#options.namespaces.get(namespace) === undefined && this.#cluster.mayApplyIn(namespace);
  }

  /** Like `PolicyEngine.admit`. @param isRunning true during a round */
  admit(pod: PolicyPod, isRunning: boolean): MatrixSubject | undefined {
    const key = `${pod.namespace}/${pod.name}`;
    const before = this.rows.current.get(key);
    // The running round processes an older state of the pod.
    if (isRunning && (this.#dirty.has(key) || before !== this.rows.get(key))) return undefined;
    const after = this.#admitted(pod);
    if (!after) return undefined;
    this.#releaseLater(before);
    this.rows.setPublished(key, after);
    return after;
  }

  /** Acquires new classes before it releases unused ones, so that terms that both have stay unchanged. */
  *settle(): Steps {
    const { nodeName, kinds } = this.#options;
    for (const key of this.#dirty) {
      const known = kinds.get(key);
      const isLocal = known?.pod.nodeName === nodeName;
      const after = isLocal ? yield* this.#subjectOf(known) : undefined;
      // Read here, because the pod may have been admitted meanwhile.
      const before = this.rows.current.get(key);
      this.#releaseLater(before);
      if (after && !isSame(before, after)) this.rows.set(key, after);
      else if (!after && before) this.rows.delete(key);
      this.#dirty.delete(key);
      yield;
    }
    const released = this.#released;
    this.#released = [];
    for (const [direction, former] of released) {
      const { relations, membership } = this.#options.directions[direction];
      yield* relations.releaseSubject(former, (term) => membership.release(term));
    }
  }

  #releaseLater(former: MatrixSubject | undefined): void {
    for (const direction of policyDirections) for (const each of classesIn(former, direction)) this.#released.push([direction, each]);
  }

  *#policiesOf({ namespace, labels }: PolicyPod): Steps<readonly PolicyIntent[]> {
    const index = yield* this.#indexOf(namespace);
    const found: PolicyIntent[] = [];
    for (const label of ['', ...Object.entries(labels).map(([key, value]) => labelText(key, value))])
      for (const each of index.get(label) ?? []) {
        each.intent ??= policyIntent(each.policy);
        if (each.intent.pods && matchesLabels(each.intent.pods, labels)) found.push(each.intent);
        yield;
      }
    return found;
  }

  /** Index of policies by label. A namespace may have thousands of policies, each for a few of its pods. */
  *#indexOf(namespace: string): Steps<ReadonlyMap<string, ReadonlySet<KnownPolicy>>> {
    const known = this.#byLabel.get(namespace);
    if (known) return known;
    const index = new Map<string, Set<KnownPolicy>>();
    for (const each of this.#policies.get(namespace)?.values() ?? []) {
      addTo(index, placeOf(each.policy), each);
      yield;
    }
    if (this.#local.has(namespace)) this.#byLabel.set(namespace, index);
    return index;
  }

  *#subjectOf({ pod, addresses }: IndexedPod): Steps<MatrixSubject> {
    const rules = yield* this.#rulesOf(pod);
    const acquired = new AcquiredClasses();
    for (const { direction, rules: own } of rules) {
      const { relations, membership } = this.#options.directions[direction];
      acquired.add(direction, yield* relations.acquireSubject(own, (term) => membership.acquire(term)));
    }
    return { addresses: addresses.map(({ text }) => text), ...acquired.classes };
  }

  #admitted(pod: PolicyPod): MatrixSubject | undefined {
    const acquired = new AcquiredClasses();
    const addresses = pod.podIps.map((ip) => parseIp(ip).text);
    for (const { direction, rules } of finish(this.#rulesOf(pod))) {
      const known = this.#options.directions[direction].relations.acquirePublished(rules);
      if (known) acquired.add(direction, known);
      else {
        this.#releaseLater({ addresses, ...acquired.classes });
        return undefined;
      }
    }
    return { addresses, ...acquired.classes };
  }

  /** Returns the rules of a pod, for each direction and tier in which it has some. */
  *#rulesOf(pod: PolicyPod): Steps<readonly DirectionRules[]> {
    const policies = yield* this.#policiesOf(pod);
    const cluster = this.#cluster.size === 0 ? undefined : yield* this.#cluster.of(pod);
    return policyDirections.flatMap((direction) => {
      const own = this.#rules.of(direction, policies, pod.ports, this.#denials.get(pod.namespace));
      const ofTiers = clusterTiers.map((tier) => this.#rules.ofTier(direction, tier, cluster?.[tier] ?? [], pod.ports));
      return [own, ...ofTiers].flatMap((rules) => (rules ? [{ direction, rules }] : []));
    });
  }

  #touchCluster(intent: ClusterIntent): void {
    for (const keys of this.#local.values())
      for (const key of keys) {
        const known = this.#options.kinds.get(key);
        if (known && this.#cluster.appliesTo(intent, known.pod)) this.#dirty.add(key);
      }
  }

  /** Marks the local pods that a policy selects. The rules of other pods do not change. */
  #touch({ namespace, podSelector }: NetworkPolicy): void {
    const local = this.#local.get(namespace);
    const selector = local && selectorOf(podSelector);
    if (!local || !selector) return;
    for (const key of local) if (matchesLabels(selector, this.#options.kinds.get(key)?.pod.labels ?? {})) this.#dirty.add(key);
  }
}

interface DirectionRules {
  readonly direction: PolicyDirection;
  readonly rules: SubjectRules;
}

/** Classes of a pod, collected one after another. */
class AcquiredClasses {
  readonly #own: { ingress?: SubjectClass; egress?: SubjectClass } = {};
  readonly #cluster: Partial<Record<PolicyDirection, ClusterClasses>> = {};

  add(direction: PolicyDirection, acquired: SubjectClass): void {
    if (acquired.tier) this.#cluster[direction] = { ...this.#cluster[direction], [acquired.tier]: acquired };
    else this.#own[direction] = acquired;
  }

  get classes(): Omit<MatrixSubject, 'addresses'> {
    return { ...this.#own, ...(Object.keys(this.#cluster).length > 0 && { cluster: this.#cluster }) };
  }
}

/** Returns a label, `key=value`, that everything the policy selects must have; `''` if there is none. */
function placeOf({ podSelector }: NetworkPolicy): string {
  const equality = podSelector.find(({ operator, values }) => operator === 'In' && values.length === 1);
  return equality ? labelText(equality.key, equality.values[0] ?? '') : '';
}

function isSame(a: MatrixSubject | undefined, b: MatrixSubject | undefined): boolean {
  return policyDirections.every((direction) => haveSameClasses(a, b, direction)) && a?.addresses.join() === b?.addresses.join();
}
