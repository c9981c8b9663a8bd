import type { ClusterTier, DecidedRange, PolicyDecision, PolicyOutcome } from '../matrix/matrix.ts';
import { verdictText } from '../matrix/verdict-text.ts';
import type { PortSpan } from './intent.ts';

/** A rule that applies to a pair of classes, with the ports that it has for them. */
export interface AppliedRule {
  readonly ports: 'any' | readonly PortSpan[];
  readonly outcome: PolicyOutcome;
}

const protocolOrder = ['TCP', 'UDP', 'SCTP'] as const;

/**
 * Combines rules into ranges that do not overlap. The first rule that matches decides. A range whose outcome is that of everything else is
 * left out.
 *
 * @param otherwise outcome for ports that no rule matches
 */
export function decisionOf(rules: readonly AppliedRule[], otherwise: PolicyOutcome, tier?: ClusterTier): PolicyDecision {
  const end = rules.findIndex(({ ports }) => ports === 'any');
  const before = end < 0 ? rules : rules.slice(0, end);
  const rest = rules[end]?.outcome ?? otherwise;
  const ranges = protocolOrder.flatMap((protocol) => {
    let taken: readonly DecidedRange[] = [];
    for (const { ports, outcome } of before)
      for (const span of ports === 'any' ? [] : ports) if (span.protocol === protocol) taken = withSpan(taken, span, outcome);
    return joined(taken).filter(({ outcome }) => outcome !== rest);
  });
  return { ranges, otherwise: rest, ...(tier && { tier }) };
}

/** Adds the parts of a span that no range covers yet. @param taken disjoint and sorted */
function withSpan(taken: readonly DecidedRange[], { protocol, first, last }: PortSpan, outcome: PolicyOutcome): readonly DecidedRange[] {
  const result: DecidedRange[] = [];
  let from = first;
  for (const range of taken) {
    if (range.first > from && from <= last) result.push({ protocol, first: from, last: Math.min(last, range.first - 1), outcome });
    result.push(range);
    from = Math.max(from, range.last + 1);
  }
  if (from <= last) result.push({ protocol, first: from, last, outcome });
  return result.sort((a, b) => a.first - b.first);
}

function joined(ranges: readonly DecidedRange[]): readonly DecidedRange[] {
  const result: DecidedRange[] = [];
  for (const range of ranges) {
    const before = result.at(-1);
    if (before && before.last + 1 === range.first && before.outcome === range.outcome)
      result[result.length - 1] = { ...before, last: range.last };
    else result.push(range);
  }
  return result;
}

/** Text of a decision: equal for equal decisions only. */
export function decisionText({ ranges, otherwise }: PolicyDecision): string {
  const outcomeText = (outcome: PolicyOutcome): string => `${verdictText(outcome)} ${outcome.by.join(',')}`;
  return [...ranges.map((each) => `${each.protocol} ${each.first}-${each.last} ${outcomeText(each.outcome)}`), outcomeText(otherwise)].join(
    '; ',
  );
}
