import { SeineError } from '../../base/errors/seine-error.ts';
import type { Family } from '../../base/net/ip.ts';
import { combined, identityOf, relationOf } from '../matrix/interpret.ts';
import {
  classesIn,
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
import { SharedEngine } from './shared-engine.ts';

/** Connections that policies allow from one party to another. */
export interface Reachability {
  /** Ranges of ports by family; a family is absent if one of the two has no address of it. */
  readonly families: ReadonlyMap<Family, readonly ReachRange[]>;
}

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
   * @param computed engine with all objects, as another side of the same change left it; absent: a new one
   * @throws SeineError `INVALID_INPUT` for an object that cannot be understood, with its kind, name and field
   */
  constructor(objects: ReachObjects, computed?: SharedEngine) {
    this.objects = computed ? objects : withOwnedAddresses(objects);
    this.groups = podGroups(this.objects);
    this.#representatives = representatives(this.groups);
    const engine = computed ?? new SharedEngine(new Set(this.#representatives.values()));
    this.#matrix = engine.matrixFor(this.objects);
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

/** Reachability before and after a change. One engine computes both: only what changes is computed twice. */
export function reachSides(before: ReachObjects, after: ReachObjects): { readonly before: Reach; readonly after: Reach } {
  const owned = { before: withOwnedAddresses(before), after: withOwnedAddresses(after) };
  const local = [owned.before, owned.after].flatMap((objects) => [...representatives(podGroups(objects)).values()]);
  const engine = new SharedEngine(new Set(local));
  return { before: new Reach(owned.before, engine), after: new Reach(owned.after, engine) };
}
