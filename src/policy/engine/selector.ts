import type { LabelRequirement } from '../../kubernetes/resources/label-selector.ts';

/** Requirement of a selector on one label. */
interface LabelTest {
  readonly key: string;
  /**
   * Kind of test. `in`: has one of the values; `not in`: lacks the label or has another value; `present`, `absent`: regardless of the
   * value.
   */
  readonly test: 'in' | 'not in' | 'present' | 'absent';
  /** Values, sorted and without duplicates; empty for `present` and `absent`. */
  readonly values: readonly string[];
}

/** Tests that must all be true, in normal form: equivalent selectors have the same tests. An empty selector matches everything. */
export type Selector = readonly LabelTest[];

export type PodLabels = Readonly<Record<string, string>>;

/** Normalizes a selector. @returns undefined if nothing can match */
export function selectorOf(requirements: readonly LabelRequirement[]): Selector | undefined {
  const tests: LabelTest[] = [];
  for (const [key, asked] of Map.groupBy(requirements, (each) => each.key)) {
    const found = testsOf(key, asked);
    if (!found) return undefined;
    tests.push(...found);
  }
  return tests.sort((a, b) => (a.key === b.key ? compareTexts(a.test, b.test) : compareTexts(a.key, b.key)));
}

/** Combines all requirements on one label into one test, or into `present` and `not in`. */
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

/** Binary search, because a selector may list as many values as fit into an object. @param values sorted */
function isAmong(values: readonly string[], value: string): boolean {
  let [from, to] = [0, values.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if ((values[middle] ?? '') < value) from = middle + 1;
    else to = middle;
  }
  return values[from] === value;
}

/** Returns a label, `key=value`, that everything the selector matches must have, for use as an index key; undefined if there is none. */
export function certainLabel(selector: Selector): string | undefined {
  const equality = selector.find(({ test, values }) => test === 'in' && values.length === 1);
  return equality && labelText(equality.key, equality.values[0] ?? '');
}

export function labelText(key: string, value: string): string {
  return `${key}=${value}`;
}

/** Text of a selector: equal for equal tests only. */
export function selectorText(selector: Selector): string {
  return selector.map(({ key, test, values }) => [quoted(key), test, ...values.map(quoted)].join(' ')).join(', ');
}

/** Quotes text, unless it has only characters that the API server admits in labels. */
function quoted(text: string): string {
  return /^[\w./-]+$/.test(text) ? text : JSON.stringify(text);
}

function sortedOnce(values: readonly string[]): readonly string[] {
  return [...new Set(values)].sort();
}

export function compareTexts(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
