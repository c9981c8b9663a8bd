import type { DecidedRange, PolicyOutcome } from '../matrix/matrix.ts';

type ReachProtocol = 'TCP' | 'UDP' | 'SCTP' | 'other';

/** Why policies of one end have no say, or that they decide. */
type EndReason = 'not a pod' | 'itself' | 'own node' | 'not isolated' | 'decided';

/** Verdict of the policies of one end of a connection. */
interface EndOutcome extends PolicyOutcome {
  readonly why: EndReason;
}

/** Verdicts of one end for all ports. */
export interface EndRanges {
  readonly why: EndReason;
  /** Ranges, disjoint, sorted by protocol and port. */
  readonly ranges: readonly DecidedRange[];
  /** Outcome for everything else: other ports, and protocols without ports. */
  readonly otherwise: PolicyOutcome;
}

/** Range of ports with one verdict. Ranges of a pair cover every port of TCP, UDP and SCTP, and `other` protocols as port 0. */
export interface ReachRange {
  readonly protocol: ReachProtocol;
  readonly first: number;
  readonly last: number;
  readonly verdict: 'allow' | 'deny';
  readonly egress: EndOutcome;
  readonly ingress: EndOutcome;
}

const allowed: PolicyOutcome = { verdict: 'allow', by: [] };

/** Ends that allow every port, because policies do not apply to them. */
export const everyPort = {
  notPod: { why: 'not a pod', ranges: [], otherwise: allowed },
  itself: { why: 'itself', ranges: [], otherwise: allowed },
  ownNode: { why: 'own node', ranges: [], otherwise: allowed },
  notIsolated: { why: 'not isolated', ranges: [], otherwise: allowed },
} as const satisfies Record<string, EndRanges>;

const LAST_PORT = 65_535;

/** Combines the verdicts of both ends: a connection needs both. Neighbouring ranges with the same outcome are one. */
export function combine(egress: EndRanges, ingress: EndRanges): readonly ReachRange[] {
  const found: ReachRange[] = [];
  for (const protocol of ['TCP', 'UDP', 'SCTP'] as const) {
    const starts = startsOf([...egress.ranges, ...ingress.ranges].filter((range) => range.protocol === protocol));
    for (const [at, first] of starts.entries()) {
      const range = rangeAt(egress, ingress, { protocol, first, last: (starts[at + 1] ?? LAST_PORT + 1) - 1 });
      const before = found.at(-1);
      if (before && before.protocol === protocol && isSame(before, range)) found[found.length - 1] = { ...before, last: range.last };
      else found.push(range);
    }
  }
  return [...found, rangeAt(egress, ingress, { protocol: 'other', first: 0, last: 0 })];
}

function startsOf(ranges: readonly DecidedRange[]): readonly number[] {
  const starts = new Set([0]);
  for (const { first, last } of ranges) {
    starts.add(first);
    if (last < LAST_PORT) starts.add(last + 1);
  }
  return [...starts].sort((a, b) => a - b);
}

function rangeAt(egress: EndRanges, ingress: EndRanges, span: Pick<ReachRange, 'protocol' | 'first' | 'last'>): ReachRange {
  const ends = { egress: outcomeAt(egress, span), ingress: outcomeAt(ingress, span) };
  const verdict = ends.egress.verdict === 'allow' && ends.ingress.verdict === 'allow' ? 'allow' : 'deny';
  return { ...span, verdict, ...ends };
}

function outcomeAt({ why, ranges, otherwise }: EndRanges, { protocol, first }: Pick<ReachRange, 'protocol' | 'first'>): EndOutcome {
  const range = ranges.find((each) => each.protocol === protocol && first >= each.first && first <= each.last);
  return { why, ...(range?.outcome ?? otherwise) };
}

function isSame(a: ReachRange, b: ReachRange): boolean {
  return (['egress', 'ingress'] as const).every(
    (end) => a[end].verdict === b[end].verdict && a[end].why === b[end].why && a[end].by.join() === b[end].by.join(),
  );
}

/** Returns the rules that allow, or the policies of the ends that deny. */
export function decidersOf({ verdict, egress, ingress }: ReachRange): readonly string[] {
  return [egress, ingress].flatMap((end) => (verdict === 'allow' || end.verdict === 'deny' ? end.by : []));
}
