import type { Family } from '../../base/net/ip.ts';
import type { PolicyDirection } from '../matrix/matrix.ts';
import { Confirmation, type ReachDisagreement } from './confirm.ts';
import type { ReachObjects } from './objects.ts';
import type { ReachParty } from './party.ts';
import { partyKey } from './party.ts';
import { decidersOf, type ReachRange } from './ranges.ts';
import { Reach } from './reach.ts';
import { portsText } from './table.ts';
import { pairOf, type Unit, unitsOf } from './units.ts';

/** Connections between two units that a change of policies opens, closes, or lets another rule decide. */
export interface ReachChange {
  readonly from: string;
  readonly to: string;
  readonly family?: Family;
  readonly ports: string;
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

/**
 * Compares reachability before and after a change. Units are those that the policies of neither side distinguish.
 *
 * @throws SeineError `INVALID_INPUT` for an object that cannot be understood
 */
export function reachDifference(before: ReachObjects, after: ReachObjects): ReachDifference {
  const sides = { before: new Reach(before), after: new Reach(after) };
  const confirmations = { before: new Confirmation(sides.before.objects), after: new Confirmation(sides.after.objects) };
  const units = commonUnits(sides.before, sides.after).map((unit) => ({ ...unit, ...changedEnds(sides, unit) }));
  const changes: ReachChange[] = [];
  const disagreements: ReachDisagreement[] = [];
  for (const from of units)
    for (const to of units) {
      if (!(from.egressChanged || to.ingressChanged)) continue;
      const pair = pairOf(from, to);
      if (!pair) continue;
      const results = { before: sides.before.between(...pair), after: sides.after.between(...pair) };
      const found = changesOf({ from: from.name, to: to.name }, results.before.families, results.after.families);
      if (found.length === 0) continue;
      changes.push(...found);
      for (const side of ['before', 'after'] as const) disagreements.push(...confirmations[side].differences(...pair, results[side]));
    }
  return { changes, units, confirmed: confirmations.before.compared + confirmations.after.compared, disagreements };
}

/** Reports whether other rules apply to a unit. If they do not, its end of every connection is as before. */
function changedEnds({ before, after }: { readonly before: Reach; readonly after: Reach }, { parties: [party] }: Unit) {
  const isChanged = (direction: PolicyDirection): boolean =>
    party !== undefined && before.rulesText(direction, party) !== after.rulesText(direction, party);
  return { egressChanged: isChanged('egress'), ingressChanged: isChanged('ingress') };
}

/** Splits the units of both sides until each is a unit in both. Parties that one side lacks are left out. */
function commonUnits(before: Reach, after: Reach): readonly Unit[] {
  const unitNames = new Map<string, string>();
  for (const { name, parties } of unitsOf(before)) for (const party of parties) unitNames.set(partyKey(party), name);
  const split = unitsOf(after).flatMap(({ name, parties }) => {
    const known = parties.filter((party) => unitNames.has(partyKey(party)) || party.is === 'outside');
    const groups = [...Map.groupBy(known, (party) => unitNames.get(partyKey(party)) ?? before.classText(party)).values()];
    return groups.map((group): Unit => ({ name: groups.length > 1 ? `${name} (${memberText(group)})` : name, parties: group }));
  });
  return split.sort((a, b) => (a.name < b.name ? -1 : 1));
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
      return [{ ports: isRest(same) ? 'all others' : portsText(same), change: first.change, before: first.before, after: first.after }];
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
