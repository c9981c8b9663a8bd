import type { Family } from '../../base/net/ip.ts';
import type { PolicyDirection } from '../matrix/matrix.ts';
import type { PodObject } from '../verify/reference/objects.ts';
import { Confirmation, type ReachDisagreement } from './confirm.ts';
import { keyOf, type ReachObjects } from './objects.ts';
import type { ReachParty } from './party.ts';
import { partyKey } from './party.ts';
import { decidersOf, type ReachRange } from './ranges.ts';
import { type Reach, reachSides } from './reach.ts';
import { portsText } from './table.ts';
import { pairOf, type Unit, unitsOf } from './units.ts';

/** Connections between two units that a change of policies opens, closes, or lets another rule decide. */
export interface ReachChange {
  readonly from: string;
  readonly to: string;
  readonly family?: Family;
  readonly ports: string;
  /** Ranges that `ports` names; `other` protocols as port 0. */
  readonly ranges: readonly Pick<ReachRange, 'protocol' | 'first' | 'last'>[];
  readonly change: 'opened' | 'closed' | 'other rule';
  readonly before: ReachOutcome;
  readonly after: ReachOutcome;
}

interface ReachOutcome {
  readonly verdict: 'allow' | 'deny';
  /** Rules that allow, or policies that deny; empty where no policy decides. */
  readonly by: readonly string[];
}

interface ReachDifference {
  readonly changes: readonly ReachChange[];
  readonly units: readonly Unit[];
  readonly confirmed: number;
  readonly disagreements: readonly ReachDisagreement[];
}

/** Reachability on both sides of a change. */
export interface ReachSides {
  readonly before: Reach;
  readonly after: Reach;
}

/**
 * Compares reachability before and after a change. Units are those that the policies of neither side distinguish.
 *
 * @throws SeineError `INVALID_INPUT` for an object that cannot be understood
 */
export function reachDifference(before: ReachObjects, after: ReachObjects): ReachDifference {
  return differenceOf(reachSides(before, after));
}

/** Compares two sides that are computed already. Only parties that both have are compared. */
export function differenceOf(sides: ReachSides): ReachDifference {
  const confirmations = { before: new Confirmation(sides.before.objects), after: new Confirmation(sides.after.objects) };
  const former = new FormerParties(sides);
  const units = commonUnits(sides.before, sides.after).map((unit) => ({ ...unit, ...changedEnds(sides, former, unit) }));
  const changes: ReachChange[] = [];
  const disagreements: ReachDisagreement[] = [];
  for (const from of units)
    for (const to of units) {
      if (!(from.egressChanged || from.selfChanged || to.ingressChanged || to.selfChanged)) continue;
      const pair = pairOf(from, to);
      if (!pair) continue;
      const pairs = { before: [former.of(pair[0]), former.of(pair[1])] as const, after: pair };
      const results = { before: sides.before.between(...pairs.before), after: sides.after.between(...pair) };
      const found = changesOf({ from: from.name, to: to.name }, results.before.families, results.after.families);
      if (found.length === 0) continue;
      changes.push(...found);
      for (const side of ['before', 'after'] as const)
        disagreements.push(...confirmations[side].differences(...pairs[side], results[side]));
    }
  return { changes, units, confirmed: confirmations.before.compared + confirmations.after.compared, disagreements };
}

/** Parties as the objects before the change have them: labels of pods and of their namespaces may change. */
export class FormerParties {
  readonly #pods: ReadonlyMap<string, ReachParty>;
  readonly #namespaces: readonly ReadonlyMap<string, string>[];

  constructor({ before, after }: ReachSides) {
    this.#pods = new Map(before.objects.pods.map((pod) => [keyOf(pod), { is: 'pod', pod }]));
    this.#namespaces = [before, after].map(
      ({ objects }) => new Map(objects.namespaces.map(({ metadata: { name, labels } }) => [name, sortedText(labels ?? {})])),
    );
  }

  of(party: ReachParty): ReachParty {
    return party.is === 'pod' ? (this.#pods.get(keyOf(party.pod)) ?? party) : party;
  }

  /** Reports whether rules may select a party otherwise than before, because its own labels, ports or addresses changed. */
  isChanged(party: ReachParty): boolean {
    if (party.is !== 'pod') return false;
    const former = this.of(party);
    const [then, now] = this.#namespaces.map((labels) => labels.get(party.pod.metadata.namespace));
    return then !== now || (former !== party && former.is === 'pod' && selectedText(former.pod) !== selectedText(party.pod));
  }
}

function selectedText({ metadata, spec, status }: PodObject): string {
  return JSON.stringify([sortedText(metadata.labels ?? {}), spec.containers, spec.initContainers, status]);
}

function sortedText(labels: Readonly<Record<string, string>>): string {
  return JSON.stringify(Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/**
 * Reports which rules apply to a unit that did not before, and whether it changed itself. If neither end of a connection did either, its
 * verdict is as before.
 */
function changedEnds({ before, after }: ReachSides, former: FormerParties, { parties }: Unit) {
  const [party] = parties;
  const isChanged = (direction: PolicyDirection): boolean =>
    party !== undefined && before.rulesText(direction, former.of(party)) !== after.rulesText(direction, party);
  return {
    egressChanged: isChanged('egress'),
    ingressChanged: isChanged('ingress'),
    selfChanged: parties.some((each) => former.isChanged(each)),
  };
}

/** Splits the units of both sides until each is a unit in both. Parties that one side lacks are left out. */
function commonUnits(before: Reach, after: Reach): readonly Unit[] {
  const unitNames = new Map<string, string>();
  for (const { name, parties } of unitsOf(before)) for (const party of parties) unitNames.set(partyKey(party), name);
  const split = unitsOf(after, policiesOfBoth(before, after)).flatMap(({ name, parties }) => {
    const known = parties.filter((party) => unitNames.has(partyKey(party)) || party.is === 'outside');
    const groups = [...Map.groupBy(known, (party) => unitNames.get(partyKey(party)) ?? before.classText(party)).values()];
    return groups.map((group): Unit => ({ name: groups.length > 1 ? `${name} (${memberText(group)})` : name, parties: group }));
  });
  return split.sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Policies of both sides: networks that only a removed policy names distinguish external hosts as well. */
function policiesOfBoth(
  { objects: before }: Reach,
  { objects: after }: Reach,
): Pick<ReachObjects, 'networkPolicies' | 'clusterNetworkPolicies'> {
  const added = <T>(first: readonly T[], second: readonly T[]): readonly T[] => [...new Set([...first, ...second])];
  return {
    networkPolicies: added(before.networkPolicies, after.networkPolicies),
    clusterNetworkPolicies: added(before.clusterNetworkPolicies ?? [], after.clusterNetworkPolicies ?? []),
  };
}

function memberText(parties: readonly ReachParty[]): string {
  const [first] = parties;
  const name = first ? partyKey(first).replace(/^\S+ /, '') : '';
  return parties.length === 1 ? name : `${name} and ${parties.length - 1} more`;
}

type Names = Pick<ReachChange, 'from' | 'to'>;
type Ranges = ReadonlyMap<Family, readonly ReachRange[]>;

function changesOf(names: Names, before: Ranges, after: Ranges): readonly ReachChange[] {
  const perFamily = [...after].flatMap(([family, ranges]) => {
    const former = before.get(family);
    return former && former !== ranges ? [{ family, changes: changesBetween(former, ranges) }] : [];
  });
  const [first, second] = perFamily;
  if (first && second && JSON.stringify(first.changes) === JSON.stringify(second.changes))
    return first.changes.map((change) => ({ ...names, ...change }));
  const isSingle = after.size === 1;
  return perFamily.flatMap(({ family, changes }) => changes.map((change) => ({ ...names, ...(isSingle ? {} : { family }), ...change })));
}

type PairChange = Omit<ReachChange, 'from' | 'to' | 'family'>;

function changesBetween(before: readonly ReachRange[], after: readonly ReachRange[]): readonly PairChange[] {
  const overlaps = after.flatMap((now) => before.flatMap((then) => overlapOf(then, now)));
  const pieces = overlaps.filter((piece): piece is ChangedRange => piece.change !== undefined);
  const groups = [...Map.groupBy(pieces, ({ change, before: then, after: now }) => JSON.stringify([change, then, now])).values()];
  // If everything changes, the largest group would list all ports but a few.
  const isRest = (same: readonly ChangedRange[]): boolean =>
    groups.length > 1 && pieces.length === overlaps.length && same.some(({ protocol }) => protocol === 'other');
  return groups
    .toSorted((a, b) => Number(isRest(a)) - Number(isRest(b)))
    .flatMap((same) => {
      const [first] = same;
      if (!first) return [];
      const ranges = same.map(({ protocol, first: start, last }) => ({ protocol, first: start, last }));
      const ports = isRest(same) ? 'all others' : portsText(same);
      return [{ ports, ranges, change: first.change, before: first.before, after: first.after }];
    });
}

interface ComparedRange extends Pick<ReachRange, 'protocol' | 'first' | 'last'>, Pick<ReachChange, 'before' | 'after'> {
  readonly change: ReachChange['change'] | undefined;
}

interface ChangedRange extends ComparedRange {
  readonly change: ReachChange['change'];
}

function overlapOf(then: ReachRange, now: ReachRange): readonly ComparedRange[] {
  const first = Math.max(now.first, then.first);
  const last = Math.min(now.last, then.last);
  if (now.protocol !== then.protocol || first > last) return [];
  const outcomes = { before: outcomeOf(then), after: outcomeOf(now) };
  return [{ protocol: now.protocol, first, last, change: changeOf(outcomes), ...outcomes }];
}

function outcomeOf(range: ReachRange): ReachOutcome {
  return { verdict: range.verdict, by: decidersOf(range) };
}

function changeOf({ before, after }: Pick<ReachChange, 'before' | 'after'>): ReachChange['change'] | undefined {
  if (before.verdict !== after.verdict) return after.verdict === 'allow' ? 'opened' : 'closed';
  return JSON.stringify(before.by) === JSON.stringify(after.by) ? undefined : 'other rule';
}
