import { finish, type Steps } from '../../base/async/steps.ts';
import type { Ip } from '../../base/net/ip.ts';
import type { ClusterNetworkPolicy } from '../../kubernetes/resources/cluster-network-policy.ts';
import type { NetworkPolicy } from '../../kubernetes/resources/network-policy.ts';
import type { PolicyPod } from '../../kubernetes/resources/policy-pod.ts';
import {
  classesIn,
  type MatrixSubject,
  type PolicyDirection,
  type PolicyMatrix,
  policyDirections,
  type SubjectClass,
} from '../matrix/matrix.ts';
import type { UnknownPeers } from './cluster-rules.ts';
import { Addresses, type PolicyNode } from './identities/addresses.ts';
import { Identities } from './identities/identities.ts';
import type { CoarseRoom } from './identities/identity-parts.ts';
import type { PeerShortage } from './identities/peer-shares.ts';
import { Inbox } from './inbox.ts';
import { type IndexedPod, type Kind, NamespaceLabels, PodKinds } from './kinds.ts';
import { Membership } from './membership.ts';
import { namespaceOf, Relations } from './relations.ts';
import type { PodLabels } from './selector.ts';
import { hasPort, isNamedBy, type SubjectRules } from './subject-rules.ts';
import { Subjects } from './subjects.ts';
import type { Term } from './term.ts';

/** Keys of the matrix whose rows were added, removed or changed. */
export interface PolicyChange {
  readonly subjects: ReadonlySet<string>;
  readonly ingress: DirectionChange;
  readonly egress: DirectionChange;
}

export type CoarseRooms = Readonly<Record<PolicyDirection, CoarseRoom>>;

/**
 * Maximum number of sets. The remaining numbers of `sourceCoarse` are reserved for sets that replace others while the bridge still has the
 * old ones.
 */
const SETS_MOST = 4_000;

interface DirectionChange {
  readonly identities: ReadonlySet<string>;
  readonly relations: ReadonlySet<string>;
}

/**
 * Computes the policy matrix of one node from the objects of the cluster. Objects are added and removed in any order, by name. A round
 * processes only what has changed, in small steps, and publishes the same matrix as an engine that had all objects from the start. Uses no
 * clock, no event loop and no OVS.
 */
export class PolicyEngine {
  readonly #nodeName: string;
  readonly #kinds = new PodKinds();
  readonly #namespaces = new NamespaceLabels();
  readonly #addresses = new Addresses();
  readonly #directions: Readonly<Record<PolicyDirection, PolicyEngineDirection>>;
  readonly #subjects: Subjects;
  readonly #dirtyNamespaces = new Set<string>();
  readonly #moved = new Map<string, Ip>();
  readonly #inbox = new Inbox();
  #isRunning = false;
  #nodesChanged = false;
  #ownNode: ReadonlySet<string> = new Set();
  #shortages: readonly PeerShortage[] = [];

  /**
   * Creates an engine.
   *
   * @param nodeName node whose pods are the subjects
   * @param setsMost maximum number of sets of networks that can be distinguished in a direction
   * @param rooms numbers that OVS can take; absent if there are enough
   */
  constructor(nodeName: string, setsMost = SETS_MOST, rooms?: CoarseRooms, unknownPeers?: UnknownPeers) {
    this.#nodeName = nodeName;
    this.#directions = { ingress: this.#newDirection(setsMost, rooms?.ingress), egress: this.#newDirection(setsMost, rooms?.egress) };
    this.#subjects = new Subjects({
      nodeName,
      kinds: this.#kinds,
      namespaces: this.#namespaces,
      unknownPeers,
      directions: this.#directions,
    });
  }

  /** Matrix of the last `publish`: a view, which changes with the next one. */
  get matrix(): PolicyMatrix {
    const rowsOf = ({ identities, relations }: PolicyEngineDirection) => ({ identities: identities.rows, relations: relations.rows });
    return {
      subjects: this.#subjects.rows,
      ownNode: this.#ownNode,
      ingress: rowsOf(this.#directions.ingress),
      egress: rowsOf(this.#directions.egress),
    };
  }

  /** Matrix that a finished round is about to publish: a view. */
  get coming(): PolicyMatrix {
    const rowsOf = ({ identities, relations }: PolicyEngineDirection) => ({
      identities: identities.rows.current,
      relations: relations.rows.current,
    });
    return {
      subjects: this.#subjects.rows.current,
      ownNode: this.#ownAddresses(),
      ingress: rowsOf(this.#directions.ingress),
      egress: rowsOf(this.#directions.egress),
    };
  }

  /** Reports whether changes wait that no round has taken. */
  get isBehind(): boolean {
    const { size } = this.#inbox;
    return size > 0 || (!this.#isRunning && (this.#isDirty || this.#nodesChanged));
  }

  /** @param denial answer to clients that the isolation of its pods denies; absent: as the node is configured */
  putNamespace(name: string, labels: PodLabels, denial?: SubjectRules['denial']): void {
    this.#inbox.take(() => this.#putNamespace(name, labels, denial));
  }

  #putNamespace(name: string, labels: PodLabels, denial: SubjectRules['denial']): void {
    this.#subjects.setDenial(name, denial);
    this.#namespaces.put(name, labels);
    this.#dirtyNamespaces.add(name);
    this.#subjects.relabel(name);
  }

  /** Removes a namespace. Its pods and policies stay until they are removed themselves. */
  removeNamespace(name: string): void {
    this.#inbox.take(() => this.#removeNamespace(name));
  }

  #removeNamespace(name: string): void {
    this.#subjects.setDenial(name, undefined);
    this.#namespaces.remove(name);
    this.#dirtyNamespaces.add(name);
    this.#subjects.relabel(name);
  }

  putNode(node: PolicyNode): void {
    this.#inbox.take(() => this.#putNode(node));
  }

  #putNode(node: PolicyNode): void {
    this.#addresses.putNode(node);
    this.#nodesChanged = true;
  }

  removeNode(name: string): void {
    this.#inbox.take(() => this.#removeNode(name));
  }

  #removeNode(name: string): void {
    this.#addresses.removeNode(name);
    this.#nodesChanged = true;
  }

  putPod(pod: PolicyPod): void {
    this.#inbox.take(() => this.#putPod(pod));
  }

  #putPod(pod: PolicyPod): void {
    const key = `${pod.namespace}/${pod.name}`;
    this.#removePod(key);
    const known = this.#kinds.put(key, pod);
    this.#addresses.addPod(known);
    this.#move(known);
    if (pod.nodeName === this.#nodeName) this.#subjects.put(key, pod.namespace);
  }

  /** Removes a pod. @param key `namespace/name` */
  removePod(key: string): void {
    this.#inbox.take(() => this.#removePod(key));
  }

  #removePod(key: string): void {
    const known = this.#kinds.remove(key);
    if (!known) return;
    this.#addresses.removePod(known);
    this.#move(known);
    this.#subjects.remove(key, known.pod.namespace);
  }

  putPolicy(policy: NetworkPolicy): void {
    this.#inbox.take(() => this.#subjects.putPolicy(policy), policy.namespace);
  }

  /** Removes a policy. @param key `namespace/name` */
  removePolicy(key: string): void {
    this.#inbox.take(() => this.#subjects.removePolicy(key), namespaceOf(key));
  }

  putClusterPolicy(policy: ClusterNetworkPolicy): void {
    this.#inbox.take(() => this.#subjects.putClusterPolicy(policy), everyNamespace);
  }

  removeClusterPolicy(name: string): void {
    this.#inbox.take(() => this.#subjects.removeClusterPolicy(name), everyNamespace);
  }

  /** Reports whether any policy may apply to pods of this namespace. */
  hasPolicies(namespace: string): boolean {
    return this.#subjects.hasPolicies(namespace) || this.#hasWaitingRules(namespace);
  }

  /** Reports whether cluster policies may apply to pods of a namespace whose labels are not known. */
  lacksNamespace(namespace: string): boolean {
    return this.#subjects.lacksNamespace(namespace);
  }

  #hasWaitingRules(namespace: string): boolean {
    return this.#inbox.hasRulesOf(namespace) || this.#inbox.hasRulesOf(everyNamespace);
  }

  /** Returns the owner of an address of the pod networks: `namespace/name` of a pod, or `node NAME`; undefined if it has no owner. */
  holderOf(address: Ip): string | undefined {
    const owner = this.#addresses.ownerOf(address);
    return owner && ('pod' in owner ? owner.pod.key : `node ${owner.gatewayOf.name}`);
  }

  /** Reports whether an address is in a pod network, and not an address of a node there. */
  isInPodNetwork(address: Ip): boolean {
    return this.#addresses.isInPodNetwork(address);
  }

  /** Returns the rules of a class of local pods; undefined if the class no longer exists. */
  rulesOf(direction: PolicyDirection, subject: SubjectClass): SubjectRules | undefined {
    return this.#directions[direction].relations.rulesOf(subject);
  }

  /**
   * Returns the number of pods in the cluster that a term matches; undefined for a block, and for a term that no rule of a local pod has.
   */
  podsOf(direction: PolicyDirection, term: Term): number | undefined {
    return this.#directions[direction].membership.podsOf(term);
  }

  /** Runs and publishes a whole round. @returns the rows that have changed */
  update(): PolicyChange {
    const change = finish(this.round());
    this.publish();
    return change;
  }

  /**
   * Processes the changes since the last round began. Changes that arrive meanwhile belong to the next round. Readers see nothing of the
   * result before `publish`, which must be called before the next round.
   *
   * @returns the rows that will change
   */
  *round(): Steps<PolicyChange> {
    this.#isRunning = true;
    yield* this.#inbox.empty();
    yield* this.#subjects.settle();
    yield* this.#project();
    const kinds = yield* this.#kinds.takeChanges();
    for (const direction of policyDirections) {
      const { membership, identities } = this.#directions[direction];
      const change = yield* membership.settle(kinds, this.#dirtyNamespaces);
      yield* identities.settle(change, this.#moved.values(), this.#nodesChanged);
    }
    yield* this.#sweep();
    return yield* this.#changes();
  }

  /** Makes the result of the round visible to readers. */
  publish(): void {
    if (this.#nodesChanged) this.#ownNode = this.#ownAddresses();
    this.#nodesChanged = false;
    this.#dirtyNamespaces.clear();
    this.#moved.clear();
    this.#subjects.rows.publish();
    for (const { relations, identities } of Object.values(this.#directions)) {
      relations.publish();
      identities.rows.publish();
    }
    this.#shortages = this.#shortagesNow();
    this.#inbox.open();
    this.#isRunning = false;
  }

  /** Rules with peers that are left out, as of the last `publish`. */
  get shortages(): readonly PeerShortage[] {
    return this.#shortages;
  }

  #shortagesNow(): readonly PeerShortage[] {
    const shortages: PeerShortage[] = [];
    for (const direction of policyDirections) {
      const { identities, relations } = this.#directions[direction];
      const rules = new Set<string>();
      for (const { term } of identities.leftOut) for (const rule of relations.rulesWith(term)) rules.add(rule);
      if (rules.size === 0) continue;
      const shares = identities.networkShares();
      for (const [namespace, own] of Map.groupBy([...rules].sort(), namespaceOf))
        shortages.push({ direction, namespace, rules: own, ...(shares.get(namespace) ?? { networks: 0, share: 0 }) });
    }
    return shortages;
  }

  /**
   * Returns the shortage because of which rules of a local pod do not apply to an address that their networks contain. Its `rules` are
   * these rules only.
   */
  leftOutAt(direction: PolicyDirection, pod: string, { address, port }: AskedPeer): PeerShortage | undefined {
    const namespaces = [everyNamespace, namespaceOf(pod)];
    const own = classesIn(this.matrix.subjects.get(pod), direction).flatMap((each) => this.rulesOf(direction, each)?.rules ?? []);
    for (const shortage of this.#shortages.filter((each) => each.direction === direction && namespaces.includes(each.namespace))) {
      const leftOut = new Set(shortage.rules);
      const named = own.filter((rule) => leftOut.has(rule.name) && isNamedBy(rule, address));
      const rules = named.filter((rule) => port === undefined || hasPort(rule, port)).map(({ name }) => name);
      if (rules.length > 0) return { ...shortage, rules };
    }
    return undefined;
  }

  /**
   * Gives an added pod its classes at once, if readers already know these classes; its other effects belong to the next round. A pod that
   * starts thus does not wait for changes that concern many other pods.
   *
   * @returns its row; undefined if the pod has to wait for the next round
   */
  admit(pod: PolicyPod): MatrixSubject | undefined {
    const isWaited = pod.nodeName !== this.#nodeName || this.#hasWaitingRules(pod.namespace);
    return isWaited ? undefined : this.#subjects.admit(pod, this.#isRunning);
  }

  get #isDirty(): boolean {
    return this.#dirtyNamespaces.size > 0 || this.#moved.size > 0 || this.#subjects.isBehind || this.#kinds.isBehind;
  }

  /**
   * Splits kinds, and marks the addresses of pods whose previous kind a term matched. Addresses that terms match now are found through the
   * new kinds.
   */
  *#project(): Steps {
    const isHeld = (kind: Kind): boolean =>
      policyDirections.some((direction) => {
        const { membership } = this.#directions[direction];
        return membership.fineOf(kind) !== membership.sets.empty;
      });
    for (const { known, from } of yield* this.#kinds.project()) {
      if (isHeld(from)) this.#move(known);
      yield;
    }
  }

  #newDirection(setsMost: number, room?: CoarseRoom): PolicyEngineDirection {
    const membership = new Membership(this.#kinds, this.#namespaces);
    const relations = new Relations(membership.sets.empty);
    const identities = new Identities({ membership, relations, kinds: this.#kinds, addresses: this.#addresses, setsMost, room });
    return { membership, relations, identities };
  }

  #move({ addresses }: IndexedPod): void {
    for (const ip of addresses) this.#moved.set(ip.text, ip);
  }

  #ownAddresses(): ReadonlySet<string> {
    const own = this.#addresses.node(this.#nodeName);
    return new Set(own ? [...own.addresses, ...own.gateways].map(({ text }) => text) : []);
  }

  *#sweep(): Steps {
    for (const { membership, relations, identities } of Object.values(this.#directions))
      yield* membership.sets.sweep(function* () {
        yield* membership.setsInUse();
        yield* relations.setsInUse();
        yield* identities.setsInUse();
      });
  }

  *#changes(): Steps<PolicyChange> {
    const { ingress, egress } = this.#directions;
    return {
      subjects: yield* this.#subjects.rows.changes(),
      ingress: { identities: yield* ingress.identities.rows.changes(), relations: yield* ingress.relations.rows.changes() },
      egress: { identities: yield* egress.identities.rows.changes(), relations: yield* egress.relations.rows.changes() },
    };
  }
}

/** Other end of a connection; all ports if `port` is undefined. */
interface AskedPeer {
  readonly address: Ip;
  readonly port?: { readonly protocol: string; readonly number: number } | undefined;
}

interface PolicyEngineDirection {
  readonly membership: Membership;
  readonly relations: Relations;
  readonly identities: Identities;
}

/** Stands for the namespaces of cluster policies. */
const everyNamespace = '';
