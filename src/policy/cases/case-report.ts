import type { CaseResult } from '../reach/cases.ts';
import { partyName } from '../reach/party.ts';
import { decidersOf } from '../reach/ranges.ts';
import { portsText } from '../reach/table.ts';
import type { NumberedCase } from './test-cases.ts';

/** Case with its result. */
export interface CaseReport extends NumberedCase {
  readonly file: string;
  readonly result: CaseResult;
  readonly milliseconds: number;
}

export interface FileReport {
  readonly path: string;
  readonly cases: readonly CaseReport[];
  readonly rules: number;
  /** Rules that no case uses, `namespace/name spec.ingress[2]`. */
  readonly unusedRules: readonly string[];
  /** Share of rules that a case uses (percent, rounded down). */
  readonly coverage: number;
  readonly leastCoverage?: number;
}

/** Lines that state what was found, and for which connections. */
export function failureLines({ test, result }: Pick<CaseReport, 'test' | 'result'>): readonly string[] {
  const { is, found, examples, missing } = result;
  if (is === 'nothing selected') return [missing ?? 'nothing selected'];
  const head = is === 'different' ? `expected ${test.expect}, found ${found}` : `expected a decision by ${test.by}`;
  const pairs = Map.groupBy(examples, ({ from, to, range }) =>
    JSON.stringify([partyName(from), partyName(to), range.verdict, decidersOf(range)]),
  );
  return [head, ...[...pairs.values()].flatMap(pairLine)];
}

/** Returns the line of verdicts of one pair that have the same deciding rules. */
function pairLine(same: CaseResult['examples']): readonly string[] {
  const [first] = same;
  if (!first) return [];
  const by = decidersOf(first.range);
  const families = [...new Set(same.map(({ family }) => ({ ipv4: 'IPv4', ipv6: 'IPv6' })[family]))];
  const ranges = same.filter(({ family }) => family === first.family).map(({ range }) => range);
  const decided = by.length > 0 ? by.join(', ') : 'no policy decides';
  return [
    `${partyName(first.from)} to ${partyName(first.to)}, ${families.join(' and ')}, ${portsText(ranges)}: ${first.range.verdict} (${decided})`,
  ];
}
