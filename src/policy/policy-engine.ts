import type { NetworkPolicy } from '../kube/network-policy.ts';
import type { PolicyPod } from '../kube/policy-pod.ts';
import type { Ip } from '../net/ip.ts';
import {
  type MatrixSubject,
  type PolicyDirection,
  type PolicyMatrix,
  policyDirections,
  type SubjectClass,
} from '../policy-matrix/matrix.ts';
import { Addresses, type PolicyNode } from './addresses.ts';
import { Identities } from './identities.ts';
import { mentionedNames, type PolicyIntent, policyIntent } from './intent.ts';
import { type IndexedPod, type Kind, PodKinds } from './kinds.ts';
import { Membership } from './membership.ts';
import { NamespaceLabels } from './namespace-labels.ts';
import { Relations } from './relations.ts';
import { matchesLabels, type PodLabels, selectorOf } from './selector.ts';
import { type SubjectRules, subjectRules } from './subject-rules.ts';
import type { Term } from './term.ts';

/** Keys of the matrix whose rows have come, gone or changed. */
export interface PolicyChange {
  readonly subjects: ReadonlySet<string>;
  readonly ingress: DirectionChange;
  readonly egress: DirectionChange;
}

interface DirectionChange {
  readonly identities: ReadonlySet<string>;
  readonly relations: ReadonlySet<string>;
}

/** A policy is understood when one of its namespace's pods is here, and not before. */
interface KnownPolicy {
  readonly policy: NetworkPolicy;
  intent?: PolicyIntent;
}

/**
 * From the objects of a cluster to the matrix of one node. Objects are put and removed in any order, by name; `update` works off what has changed and nothing
 * else, and gives what an engine that had all of it from the start would give. Knows no clock, no loop and no switch.
 */
export class PolicyEngine {
  readonly #nodeName: string;
  readonly #kinds = new PodKinds();
  readonly #namespaces = new NamespaceLabels();
  readonly #addresses = new Addresses();
  readonly #policies = new Map<string, Map<string, KnownPolicy>>();
  readonly #local = new Map<string, Set<string>>();
  readonly #subjects = new Map<string, MatrixSubject>();
  readonly #directions = { ingress: this.#newDirection(), egress: this.#newDirection() };
  readonly #dirtyNamespaces = new Set<string>();
  readonly #dirtySubjects = new Set<string>();
  readonly #moved = new Map<string, Ip>();
  readonly #changedSubjects = new Set<string>();
  #nodesChanged = false;
  #ownNode: ReadonlySet<string> = new Set();

  /** @param nodeName the node whose pods are the subjects */
  constructor(nodeName: string) {
    this.#nodeName = nodeName;
  }

  /** As of the last `update`: a view, which changes with the next one. */
  get matrix(): PolicyMatrix {
    const rowsOf = ({ identities, relations }: PolicyEngineDirection) => ({ identities: identities.rows, relations: relations.rows });
    return {
      subjects: this.#subjects,
      ownNode: this.#ownNode,
      ingress: rowsOf(this.#directions.ingress),
      egress: rowsOf(this.#directions.egress),
    };
  }

  putNamespace(name: string, labels: PodLabels): void {
    this.#namespaces.put(name, labels);
    this.#dirtyNamespaces.add(name);
  }

  /** Of its pods and policies those stay that have not been removed themselves. */
  removeNamespace(name: string): void {
    this.#namespaces.remove(name);
    this.#dirtyNamespaces.add(name);
  }

  putNode(node: PolicyNode): void {
    this.#addresses.putNode(node);
    this.#nodesChanged = true;
  }

  removeNode(name: string): void {
    this.#addresses.removeNode(name);
    this.#nodesChanged = true;
  }

  putPod(pod: PolicyPod): void {
    const key = `${pod.namespace}/${pod.name}`;
    this.removePod(key);
    const known = this.#kinds.put(key, pod);
    this.#addresses.addPod(known);
    this.#move(known);
    if (pod.nodeName !== this.#nodeName) return;
    this.#dirtySubjects.add(key);
    const local = this.#local.get(pod.namespace) ?? new Set();
    this.#local.set(pod.namespace, local.add(key));
  }

  /** @param key `namespace/name` */
  removePod(key: string): void {
    const known = this.#kinds.remove(key);
    if (!known) return;
    this.#addresses.removePod(known);
    this.#move(known);
    const local = this.#local.get(known.pod.namespace);
    if (!local?.delete(key)) return;
    this.#dirtySubjects.add(key);
    if (local.size === 0) this.#local.delete(known.pod.namespace);
  }

  putPolicy(policy: NetworkPolicy): void {
    const { namespace, name } = policy;
    this.removePolicy(`${namespace}/${name}`);
    this.#kinds.mention(mentionedNames(policy), 1);
    const policies = this.#policies.get(namespace) ?? new Map<string, KnownPolicy>();
    this.#policies.set(namespace, policies.set(name, { policy }));
    this.#touchSubjects(policy);
  }

  /** @param key `namespace/name` */
  removePolicy(key: string): void {
    const [namespace = '', name = ''] = key.split('/');
    const policies = this.#policies.get(namespace);
    const known = policies?.get(name);
    if (!policies || !known) return;
    this.#kinds.mention(mentionedNames(known.policy), -1);
    policies.delete(name);
    if (policies.size === 0) this.#policies.delete(namespace);
    this.#touchSubjects(known.policy);
  }

  /** Whether there is any policy that may isolate pods of this namespace. */
  hasPolicies(namespace: string): boolean {
    return this.#policies.has(namespace);
  }

  /** Whose an address of the pod networks is: `namespace/name` of a pod, or `node NAME`; undefined for what is neither's. */
  holderOf(address: Ip): string | undefined {
    const owner = this.#addresses.ownerOf(address);
    return owner && ('pod' in owner ? owner.pod.key : `node ${owner.gatewayOf.name}`);
  }

  /** What a class of local pods is made of; undefined if there is no such class any more. */
  rulesOf(direction: PolicyDirection, subject: SubjectClass): SubjectRules | undefined {
    return this.#directions[direction].relations.rulesOf(subject);
  }

  /** How many pods of the cluster are in a term; undefined for a block, and for a term that no rule of a local pod has. */
  podsOf(direction: PolicyDirection, term: Term): number | undefined {
    return this.#directions[direction].membership.podsOf(term);
  }

  /** Works off what has changed since the last time. @returns which rows are others now */
  update(): PolicyChange {
    this.#assignSubjects();
    this.#project();
    const kinds = this.#kinds.takeChanges();
    for (const direction of policyDirections) {
      const { membership, identities } = this.#directions[direction];
      identities.settle(membership.settle(kinds, this.#dirtyNamespaces), this.#moved.values(), this.#nodesChanged);
    }
    if (this.#nodesChanged) this.#ownNode = this.#ownAddresses();
    this.#nodesChanged = false;
    this.#dirtyNamespaces.clear();
    this.#moved.clear();
    this.#sweep();
    return this.#takeChange();
  }

  /** What was held as one of its former kind is looked at again; what is held now is told by the kinds that are new. */
  #project(): void {
    const isHeld = (kind: Kind): boolean =>
      policyDirections.some((direction) => {
        const { membership } = this.#directions[direction];
        return membership.fineOf(kind) !== membership.sets.empty;
      });
    for (const { known, from } of this.#kinds.project()) if (isHeld(from)) this.#move(known);
  }

  #newDirection(): PolicyEngineDirection {
    const changed = { identities: new Set<string>(), relations: new Set<string>() };
    const membership = new Membership(this.#kinds, this.#namespaces);
    const relations = new Relations(membership.sets.empty, changed.relations);
    const { identities: changedIdentities } = changed;
    const identities = new Identities({
      membership,
      relations,
      kinds: this.#kinds,
      addresses: this.#addresses,
      changed: changedIdentities,
    });
    return { membership, relations, identities, changed };
  }

  #move({ addresses }: IndexedPod): void {
    for (const ip of addresses) this.#moved.set(ip.text, ip);
  }

  /** Pods here that it selects: of the others none has other rules than before. */
  #touchSubjects({ namespace, podSelector }: NetworkPolicy): void {
    const local = this.#local.get(namespace);
    const selector = local && selectorOf(podSelector);
    if (!local || !selector) return;
    for (const key of local) if (matchesLabels(selector, this.#kinds.get(key)?.pod.labels ?? {})) this.#dirtySubjects.add(key);
  }

  /** New classes first, then what nobody is in any more: terms that both have stay as they are. */
  #assignSubjects(): void {
    const released: (() => void)[] = [];
    const rulesOf = this.#ruleCache();
    for (const key of this.#dirtySubjects) {
      const before = this.#subjects.get(key);
      const known = this.#kinds.get(key);
      const isLocal = known?.pod.nodeName === this.#nodeName;
      const after = isLocal ? this.#subjectOf(known, rulesOf) : undefined;
      for (const direction of policyDirections) {
        const former = before?.[direction];
        if (former) released.push(() => this.#release(direction, former));
      }
      if (after) this.#subjects.set(key, after);
      else this.#subjects.delete(key);
      if (!isSame(before, after)) this.#changedSubjects.add(key);
    }
    this.#dirtySubjects.clear();
    for (const release of released) release();
  }

  #subjectOf(known: IndexedPod, rulesOf: RulesOf): MatrixSubject {
    const policies = [...(this.#policies.get(known.pod.namespace)?.values() ?? [])]
      .map((each) => (each.intent ??= policyIntent(each.policy)))
      .filter(({ pods }) => pods && matchesLabels(pods, known.pod.labels));
    const classOf = (direction: PolicyDirection): SubjectClass | undefined => {
      const rules = policies.length > 0 ? rulesOf(direction, policies, known.pod) : undefined;
      const { relations, membership } = this.#directions[direction];
      return rules && relations.acquireSubject(rules, (term) => membership.acquire(term));
    };
    const [ingress, egress] = policyDirections.map(classOf);
    return { addresses: known.addresses.map(({ text }) => text), ...(ingress ? { ingress } : {}), ...(egress ? { egress } : {}) };
  }

  /** Pods of one deployment have the same rules: they are made once a round. */
  #ruleCache(): RulesOf {
    const known = new Map<string, SubjectRules | undefined>();
    return (direction, policies, { ports }) => {
      const key = JSON.stringify([direction, policies.map((policy) => policy.key), direction === 'ingress' ? ports : {}]);
      if (!known.has(key)) known.set(key, subjectRules(direction, policies, ports));
      return known.get(key);
    };
  }

  #release(direction: PolicyDirection, former: SubjectClass): void {
    const { relations, membership } = this.#directions[direction];
    relations.releaseSubject(former, (term) => membership.release(term));
  }

  #ownAddresses(): ReadonlySet<string> {
    const own = this.#addresses.node(this.#nodeName);
    return new Set(own ? [...own.addresses, ...own.gateways].map(({ text }) => text) : []);
  }

  #sweep(): void {
    for (const direction of policyDirections) {
      const { membership, relations, identities } = this.#directions[direction];
      membership.sets.sweep(() => [...membership.setsInUse(), ...relations.setsInUse(), ...identities.setsInUse()]);
    }
  }

  #takeChange(): PolicyChange {
    const taken = (keys: Set<string>): ReadonlySet<string> => {
      const copy = new Set(keys);
      keys.clear();
      return copy;
    };
    const of = (direction: PolicyDirection): DirectionChange => {
      const { identities, relations } = this.#directions[direction].changed;
      return { identities: taken(identities), relations: taken(relations) };
    };
    return { subjects: taken(this.#changedSubjects), ingress: of('ingress'), egress: of('egress') };
  }
}

type RulesOf = (direction: PolicyDirection, policies: readonly PolicyIntent[], pod: PolicyPod) => SubjectRules | undefined;

interface PolicyEngineDirection {
  readonly membership: Membership;
  readonly relations: Relations;
  readonly identities: Identities;
  readonly changed: { readonly identities: Set<string>; readonly relations: Set<string> };
}

function isSame(a: MatrixSubject | undefined, b: MatrixSubject | undefined): boolean {
  return a?.ingress === b?.ingress && a?.egress === b?.egress && a?.addresses.join() === b?.addresses.join();
}
