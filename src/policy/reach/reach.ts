import { SeineError } from '../../base/errors/seine-error.ts';
import { type Family, isIp, parseIp } from '../../base/net/ip.ts';
import { clusterNetworkPoliciesOf } from '../../kubernetes/resources/cluster-network-policy.ts';
import { networkPolicies } from '../../kubernetes/resources/network-policy.ts';
import { policyPods } from '../../kubernetes/resources/policy-pod.ts';
import { PolicyEngine } from '../engine/policy-engine.ts';
import { combined, identityOf, relationOf } from '../matrix/interpret.ts';
import {
  classesIn,
  type DirectionMatrix,
  type MatrixSubject,
  type PeerIdentity,
  type PolicyDecision,
  type PolicyDirection,
  type PolicyMatrix,
  policyDirections,
  type SubjectClass,
} from '../matrix/matrix.ts';
import type { NodeObject, PodObject } from '../verify/reference/objects.ts';
import { keyOf, type ReachObjects } from './objects.ts';
import { withOwnedAddresses } from './owned-addresses.ts';
import { addressesOf, type ReachParty } from './party.ts';
import { type PodGroup, podGroups, representatives } from './pod-groups.ts';
import { combine, type EndRanges, everyPort, type ReachRange } from './ranges.ts';

/** Connections that policies allow from one party to another. */
export interface Reachability {
  /** Ranges of ports by family; a family is absent if one of the two has no address of it. */
  readonly families: ReadonlyMap<Family, readonly ReachRange[]>;
}

/** Node of the engine. Representatives of all groups are its pods. No Node has this name, because it is not a DNS name. */
const ANALYSED_NODE = '(analysis)';

/** Properties of a party that the results depend on. */
interface PartyFacts {
  readonly addresses: readonly (readonly [Family, string])[];
  /** Classes of a pod in the order of the tiers; none in a direction in which no policy applies to it. */
  readonly classes: Readonly<Record<PolicyDirection, readonly SubjectClass[]>>;
  readonly identities: Readonly<Record<PolicyDirection, ReadonlyMap<Family, PeerIdentity | undefined>>>;
}

/**
 * Answers for each pair of parties of a cluster which connections its policies allow, by the engine that the agents use. Pods that no policy
 * distinguishes share one class.
 */
export class Reach {
  /** The objects, without addresses that several pods list and another one owns. */
  readonly objects: ReachObjects;
  readonly groups: readonly PodGroup[];
  readonly #representatives: ReadonlyMap<string, string>;
  readonly #matrix: PolicyMatrix;
  readonly #facts = new Map<PodObject | NodeObject | string, PartyFacts>();
  /** Results by the decisions of the tiers, whose numbers make the key. */
  readonly #decided = new Map<string, EndRanges>();
  readonly #numbers = new Map<PolicyDecision, number>();
  readonly #combined = new Map<EndRanges, Map<EndRanges, readonly ReachRange[]>>();

  /**
   * Computes the policies of a cluster.
   *
   * @throws SeineError `INVALID_INPUT` for an object that cannot be understood, with its kind, name and field
   */
  constructor(objects: ReachObjects) {
    this.objects = withOwnedAddresses(objects);
    this.groups = podGroups(this.objects);
    this.#representatives = representatives(this.groups);
    this.#matrix = matrixOf(this.objects, new Set(this.#representatives.values()));
  }

  /** Returns the connections that policies allow. Equal results of a family are the same object. */
  between(from: ReachParty, to: ReachParty): Reachability {
    const [source, destination] = [this.#factsOf(from), this.#factsOf(to)];
    const families = new Map<Family, readonly ReachRange[]>();
    for (const [family] of source.addresses) {
      if (!destination.identities.egress.has(family)) continue;
      const egress = this.#endOf('egress', { party: from, facts: source }, { party: to, facts: destination }, family);
      const ingress = this.#endOf('ingress', { party: to, facts: destination }, { party: from, facts: source }, family);
      families.set(family, this.#combine(egress, ingress));
    }
    return { families };
  }

  /** Returns the verdicts of one end alone. @returns undefined if the two have no address of the family in common */
  endOf(direction: PolicyDirection, subject: ReachParty, peer: ReachParty, family: Family): EndRanges | undefined {
    const [own, other] = [this.#factsOf(subject), this.#factsOf(peer)];
    if (!own.identities[direction].has(family) || !other.identities[direction].has(family)) return undefined;
    return this.#endOf(direction, { party: subject, facts: own }, { party: peer, facts: other }, family);
  }

  /** Returns the policies with rules for a party in a direction: `namespace/name`, and names of ClusterNetworkPolicies. */
  policiesOf(direction: PolicyDirection, party: ReachParty): readonly string[] {
    return this.#factsOf(party).classes[direction].flatMap(({ isolatedBy }) => isolatedBy);
  }

  /** Returns the number of rows that a node needs in a direction if it has pods of every class. */
  rowCount(direction: PolicyDirection): number {
    return this.#matrix[direction].relations.size;
  }

  /** Reports whether policies can apply to a pod of the objects. */
  hasClass(pod: PodObject): boolean {
    return this.#representatives.has(keyOf(pod));
  }

  /** Returns the content of the rules that apply to a party in a direction, of all tiers. */
  rulesText(direction: PolicyDirection, party: ReachParty): string {
    return this.#factsOf(party)
      .classes[direction].map(({ tier, text }) => `${tier} ${text}`)
      .join('\n');
  }

  /** Returns a text that is equal for parties which policies do not distinguish, at either end of a connection. */
  classText(party: ReachParty): string {
    const own = party.is === 'pod' ? (this.#representatives.get(keyOf(party.pod)) ?? '') : '';
    return [own, ...this.#identityTexts(party)].join(' ');
  }

  /** Returns a text that is equal for parties with the same results. Labels that rules mention with other values do not count. */
  effectText(party: ReachParty): string {
    const { classes } = this.#factsOf(party);
    const own = policyDirections.map((direction) => classes[direction].map(({ tier, id }) => `${tier ?? ''}${id}`).join());
    return [...own, ...this.#identityTexts(party)].join(' ');
  }

  #identityTexts(party: ReachParty): readonly string[] {
    const { identities } = this.#factsOf(party);
    return policyDirections.flatMap((direction) =>
      [...identities[direction]].map(([family, identity]) => `${family} ${identity ? `${identity.coarse.id}.${identity.fine.id}` : '-'}`),
    );
  }

  #endOf(direction: PolicyDirection, subject: KnownParty, peer: KnownParty, family: Family): EndRanges {
    const { party } = subject;
    if (party.is !== 'pod') return everyPort.notPod;
    if (peer.party.is === 'pod' && peer.party.pod === party.pod) return everyPort.itself;
    if (direction === 'ingress' && peer.party.is === 'node' && peer.party.node.metadata.name === party.pod.spec.nodeName)
      return everyPort.ownNode;
    const classes = subject.facts.classes[direction];
    if (classes.length === 0) return everyPort.notIsolated;
    return this.#decide(direction, classes, peer.facts.identities[direction].get(family));
  }

  #decide(direction: PolicyDirection, classes: readonly SubjectClass[], identity: PeerIdentity | undefined): EndRanges {
    const tiers = classes.map((each) => {
      const decision = relationOf(this.#matrix[direction], each, identity);
      if (!decision) throw new SeineError('INVARIANT', `class ${each.text} has no row`);
      return decision;
    });
    const key = tiers.map((decision) => this.#numberOf(decision)).join(' ');
    const known = this.#decided.get(key) ?? { why: 'decided', ...combined({ tiers }) };
    this.#decided.set(key, known);
    return known;
  }

  #numberOf(decision: PolicyDecision): number {
    const number = this.#numbers.get(decision) ?? this.#numbers.size;
    this.#numbers.set(decision, number);
    return number;
  }

  #factsOf(party: ReachParty): PartyFacts {
    const key = party.is === 'pod' ? party.pod : party.is === 'node' ? party.node : party.address;
    const known = this.#facts.get(key);
    if (known) return known;
    const addresses = [...addressesOf(party)];
    const identitiesIn = (direction: PolicyDirection) =>
      new Map(addresses.map(([family, address]) => [family, identityOf(this.#matrix[direction], address)]));
    const row = party.is === 'pod' ? this.#rowOf(party.pod) : undefined;
    const facts: PartyFacts = {
      addresses,
      classes: { ingress: classesIn(row, 'ingress'), egress: classesIn(row, 'egress') },
      identities: { ingress: identitiesIn('ingress'), egress: identitiesIn('egress') },
    };
    this.#facts.set(key, facts);
    return facts;
  }

  #rowOf(pod: PodObject): MatrixSubject {
    const row = this.#matrix.subjects.get(this.#representatives.get(keyOf(pod)) ?? '');
    if (!row) throw new SeineError('INVARIANT', `pod ${keyOf(pod)} has no class`);
    return row;
  }

  #combine(egress: EndRanges, ingress: EndRanges): readonly ReachRange[] {
    const byIngress = this.#combined.get(egress) ?? new Map<EndRanges, readonly ReachRange[]>();
    this.#combined.set(egress, byIngress);
    const known = byIngress.get(ingress) ?? combine(egress, ingress);
    byIngress.set(ingress, known);
    return known;
  }
}

interface KnownParty {
  readonly party: ReachParty;
  readonly facts: PartyFacts;
}

const clusterPolicies = clusterNetworkPoliciesOf('v1beta1');

function matrixOf(objects: ReachObjects, local: ReadonlySet<string>): PolicyMatrix {
  const engine = new PolicyEngine(ANALYSED_NODE, Number.MAX_SAFE_INTEGER);
  for (const { metadata } of objects.namespaces) engine.putNamespace(metadata.name, metadata.labels ?? {});
  for (const { metadata, spec, status } of objects.nodes)
    engine.putNode({
      name: metadata.name,
      labels: metadata.labels ?? {},
      podCidrs: spec.podCIDRs ?? [],
      addresses: status.addresses.flatMap(({ address }) => (isIp(address) ? [parseIp(address).text] : [])),
    });
  for (const object of objects.pods) {
    const pod = understood('Pod', keyOf(object), () => policyPods.project(object));
    if (pod) engine.putPod(local.has(keyOf(object)) ? { ...pod, nodeName: ANALYSED_NODE } : pod);
  }
  for (const object of objects.networkPolicies) {
    const policy = understood('NetworkPolicy', keyOf(object), () => networkPolicies.project(withUid(object)));
    if (policy) engine.putPolicy(policy);
  }
  for (const object of objects.clusterNetworkPolicies ?? []) {
    const { name } = object.metadata;
    const raw = { ...object, metadata: { uid: name, ...object.metadata } };
    const policy = understood('ClusterNetworkPolicy', name, () => clusterPolicies.project(raw));
    if (policy) engine.putClusterPolicy(policy);
  }
  engine.update();
  return plainMatrix(engine.matrix);
}

/** Copies the engine's view into maps, which are read many times. */
function plainMatrix({ subjects, ownNode, ingress, egress }: PolicyMatrix): PolicyMatrix {
  const copy = ({ identities, relations }: DirectionMatrix) => ({ identities: new Map(identities), relations: new Map(relations) });
  return { subjects: new Map(subjects), ownNode, ingress: copy(ingress), egress: copy(egress) };
}

/** Objects in files have no UID yet. */
function withUid(object: ReachObjects['networkPolicies'][number]): unknown {
  return { ...object, metadata: { uid: keyOf(object), ...object.metadata } };
}

function understood<T>(kind: string, name: string, read: () => T): T {
  try {
    return read();
  } catch (thrown) {
    throw new SeineError('INVALID_INPUT', `${kind} ${name}: ${SeineError.from(thrown, 'parse').rawMessage}`, { cause: thrown });
  }
}
