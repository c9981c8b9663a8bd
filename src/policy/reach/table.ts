import { SeineError } from '../../base/errors/seine-error.ts';
import type { Family } from '../../base/net/ip.ts';
import { Confirmation, type ReachDisagreement } from './confirm.ts';
import { decidersOf, type ReachRange } from './ranges.ts';
import type { Reach } from './reach.ts';
import { joinedUnits, pairOf, type Unit, unitsOf } from './units.ts';

/** Connections between two units with one outcome. */
export interface ReachRow {
  readonly from: string;
  readonly to: string;
  /** Absent: the same for both families. */
  readonly family?: Family;
  /** Ports as text: `TCP 80, 8000-8080; UDP 53`, `all`, `other protocols`; `all others` for what the other rows of the pair do not list. */
  readonly ports: string;
  readonly verdict: 'allow' | 'deny';
  /** Rules that allow, or policies that deny; empty where no policy decides. */
  readonly by: readonly string[];
}

interface ReachTable {
  readonly rows: readonly ReachRow[];
  /** Number of verdicts that the reference has confirmed. */
  readonly confirmed: number;
  readonly disagreements: readonly ReachDisagreement[];
  readonly units: readonly Unit[];
}

export interface TableFilter {
  readonly from: (unit: Unit) => boolean;
  readonly to: (unit: Unit) => boolean;
  readonly range: (range: ReachRange) => boolean;
}

/** Units of one side that are listed one by one; more are joined where policies do not distinguish them. */
const UNITS_LISTED = 300;
/** Pairs of units: each has a row or more, and takes about 20 µs. */
const PAIRS_MAX = 1_000_000;

/**
 * Computes the rows for all pairs of units. Pairs of which neither end is a pod have none. Each row is confirmed by the reference.
 *
 * @throws SeineError `INVALID_INPUT` if there are more pairs than a program can hold
 */
export function reachTable(reach: Reach, filter: TableFilter): ReachTable {
  const all = unitsOf(reach);
  const sources = joinedUnits(reach, all.filter(filter.from), UNITS_LISTED);
  const destinations = joinedUnits(reach, all.filter(filter.to), UNITS_LISTED);
  const pairs = sources.length * destinations.length;
  if (pairs > PAIRS_MAX)
    throw new SeineError(
      'INVALID_INPUT',
      `policies distinguish ${sources.length} sources and ${destinations.length} destinations: select some with --from or --to`,
    );
  const units = [...new Map([...sources, ...destinations].map((unit) => [unit.name, unit])).values()];
  const confirmation = new Confirmation(reach.objects);
  const rows: ReachRow[] = [];
  const disagreements: ReachDisagreement[] = [];
  for (const from of sources)
    for (const to of destinations) {
      const pair = pairOf(from, to);
      if (!pair || (pair[0].is !== 'pod' && pair[1].is !== 'pod')) continue;
      const result = reach.between(...pair);
      disagreements.push(...confirmation.differences(...pair, result));
      rows.push(...rowsOf({ from: from.name, to: to.name }, result.families, filter.range));
    }
  return { rows, confirmed: confirmation.compared, disagreements, units };
}

function rowsOf(
  names: { readonly from: string; readonly to: string },
  families: ReadonlyMap<Family, readonly ReachRange[]>,
  isWanted: TableFilter['range'],
): readonly ReachRow[] {
  const perFamily = [...families].map(([family, ranges]) => ({ family, rows: outcomesOf(ranges.filter(isWanted)) }));
  const [first, second] = perFamily;
  if (!first) return [];
  if (second && JSON.stringify(first.rows) === JSON.stringify(second.rows)) return first.rows.map((row) => ({ ...names, ...row }));
  return perFamily.flatMap(({ family, rows }) => rows.map((row) => ({ ...names, ...(second ? { family } : {}), ...row })));
}

function outcomesOf(ranges: readonly ReachRange[]): readonly Omit<ReachRow, 'from' | 'to' | 'family'>[] {
  const byOutcome = [...Map.groupBy(ranges, (range) => JSON.stringify([range.verdict, decidersOf(range)])).values()];
  // What holds for protocols without ports holds for most ports: its list would name all ports but a few.
  const isRest = (same: readonly ReachRange[]): boolean => byOutcome.length > 1 && same.some(({ protocol }) => protocol === 'other');
  return byOutcome
    .toSorted((a, b) => Number(isRest(a)) - Number(isRest(b)))
    .flatMap((same) => {
      const [first] = same;
      return first ? [{ ports: isRest(same) ? 'all others' : portsText(same), verdict: first.verdict, by: decidersOf(first) }] : [];
    });
}

const LAST_PORT = 65_535;

/** Returns the text of ranges that do not overlap: `all`, or for each protocol its ports. */
export function portsText(ranges: readonly Pick<ReachRange, 'protocol' | 'first' | 'last'>[]): string {
  const byProtocol = new Map([...Map.groupBy(ranges, ({ protocol }) => protocol)].map(([protocol, own]) => [protocol, spansText(own)]));
  const isWhole = (['TCP', 'UDP', 'SCTP'] as const).filter((protocol) => byProtocol.get(protocol) === 'all ports');
  if (isWhole.length === 3) return byProtocol.has('other') ? 'all' : 'all ports';
  return [...byProtocol].map(([protocol, text]) => (protocol === 'other' ? 'other protocols' : `${protocol} ${text}`)).join('; ');
}

function spansText(ranges: readonly Pick<ReachRange, 'first' | 'last'>[]): string {
  const joined: { first: number; last: number }[] = [];
  for (const { first, last } of ranges.toSorted((a, b) => a.first - b.first)) {
    const before = joined.at(-1);
    if (before && before.last + 1 === first) before.last = last;
    else joined.push({ first, last });
  }
  if (joined.length === 1 && joined[0]?.first === 0 && joined[0].last === LAST_PORT) return 'all ports';
  return joined.map(({ first, last }) => (first === last ? `${first}` : `${first}-${last}`)).join(', ');
}
