import type { Finding, FindingState } from '../../api/check.ts';
import { safeLine } from '../escape.ts';
import type { Room } from '../table.ts';
import { count } from '../words.ts';

const labels: Readonly<Record<FindingState, { readonly text: string; readonly tone: 'good' | 'warning' | 'bad' }>> = {
  ok: { text: 'ok', tone: 'good' },
  warning: { text: 'warning', tone: 'warning' },
  problem: { text: 'PROBLEM', tone: 'bad' },
  unknown: { text: 'unknown', tone: 'warning' },
};
const LABEL_WIDTH = 9;
const NAME_WIDTH = 20;

/** Finding: one line if all is well, otherwise with its meaning and remedy below. */
export function findingLines({ check, state, what, effect, remedy }: Finding, { paint }: Pick<Room, 'paint'>): readonly string[] {
  const { text, tone } = labels[state];
  const label = paint(tone, text) + ' '.repeat(LABEL_WIDTH - text.length);
  const indent = ' '.repeat(LABEL_WIDTH);
  return [
    `${label}${safeLine(check).padEnd(NAME_WIDTH)} ${safeLine(what)}`,
    ...(effect === undefined ? [] : [`${indent}effect: ${safeLine(effect)}`]),
    ...(remedy === undefined ? [] : [`${indent}remedy: ${safeLine(remedy)}`]),
  ];
}

export function summary(findings: readonly Finding[]): string {
  const of = (state: FindingState): number => findings.filter((finding) => finding.state === state).length;
  const bad = [
    ...(of('problem') > 0 ? [count(of('problem'), 'problem')] : []),
    ...(of('warning') > 0 ? [count(of('warning'), 'warning')] : []),
    ...(of('unknown') > 0 ? [`${of('unknown')} not known`] : []),
  ];
  return `${of('ok')} of ${findings.length} checks passed${bad.length > 0 ? `; ${bad.join(', ')}` : ''}`;
}
