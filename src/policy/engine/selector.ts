import type { LabelRequirement } from '../../kubernetes/resources/network-policy.ts';

/** What a selector asks of one label. */
interface LabelTest {
  readonly key: string;
  /** `in`: has one of the values; `not in`: lacks the label or has another value; `present`, `absent`: of whatever value. */
  readonly test: 'in' | 'not in' | 'present' | 'absent';
  /** Sorted, each once; empty for `present` and `absent`. */
  readonly values: readonly string[];
}

/** All must hold. In normal form: selectors that say the same in other words have the same tests. Empty: everything matches. */
export type Selector = readonly LabelTest[];

export type PodLabels = Readonly<Record<string, string>>;

/** @returns undefined if nothing can match */
export function selectorOf(requirements: readonly LabelRequirement[]): Selector | undefined {
  const tests: LabelTest[] = [];
  for (const [key, asked] of Map.groupBy(requirements, (each) => each.key)) {
    const found = testsOf(key, asked);
    if (!found) return undefined;
    tests.push(...found);
  }
  return tests.sort((a, b) => (a.key === b.key ? compareTexts(a.test, b.test) : compareTexts(a.key, b.key)));
}

/** All that is asked of one label, as one test, or as `present` and `not in`. */
function testsOf(key: string, asked: readonly LabelRequirement[]): readonly LabelTest[] | undefined {
  const valuesOf = (operator: LabelRequirement['operator']) =>
    asked.filter((each) => each.operator === operator).map(({ values }) => values);
  const ins = valuesOf('In');
  const excluded = new Set(valuesOf('NotIn').flat());
  const isAbsent = valuesOf('DoesNotExist').length > 0;
  const isPresent = valuesOf('Exists').length > 0 || ins.length > 0;
  if (isAbsent) return isPresent ? undefined : [{ key, test: 'absent', values: [] }];
  if (ins.length > 0) {
    const values = sortedOnce(ins.reduce((all, more) => all.filter((value) => more.includes(value)))).filter(
      (value) => !excluded.has(value),
    );
    return values.length > 0 ? [{ key, test: 'in', values }] : undefined;
  }
  return [
    ...(excluded.size > 0 ? [{ key, test: 'not in' as const, values: sortedOnce([...excluded]) }] : []),
    ...(isPresent ? [{ key, test: 'present' as const, values: [] }] : []),
  ];
}

export function matchesLabels(selector: Selector, labels: PodLabels): boolean {
  return selector.every(({ key, test, values }) => {
    const value = Object.hasOwn(labels, key) ? labels[key] : undefined;
    if (test === 'in') return value !== undefined && isAmong(values, value);
    if (test === 'not in') return value === undefined || !isAmong(values, value);
    return test === 'present' ? value !== undefined : value === undefined;
  });
}

/** By halves: a selector may name as many values as an object has room for. @param values sorted */
function isAmong(values: readonly string[], value: string): boolean {
  let [from, to] = [0, values.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if ((values[middle] ?? '') < value) from = middle + 1;
    else to = middle;
  }
  return values[from] === value;
}

/** A label that whatever matches has, `key=value`, by which it can be looked up; undefined if none is certain. */
export function certainLabel(selector: Selector): string | undefined {
  const equality = selector.find(({ test, values }) => test === 'in' && values.length === 1);
  return equality && labelText(equality.key, equality.values[0] ?? '');
}

export function labelText(key: string, value: string): string {
  return `${key}=${value}`;
}

/** The same for the same tests and for no others. */
export function selectorText(selector: Selector): string {
  return selector.map(({ key, test, values }) => [quoted(key), test, ...values.map(quoted)].join(' ')).join(', ');
}

/** What the API server lets into a label stands as it is; anything else in quotes. */
function quoted(text: string): string {
  return /^[\w./-]+$/.test(text) ? text : JSON.stringify(text);
}

function sortedOnce(values: readonly string[]): readonly string[] {
  return [...new Set(values)].sort();
}

export function compareTexts(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
