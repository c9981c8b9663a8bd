import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { root } from './lab.ts';

/** An alert that one look at an agent's metrics can tell: one metric is compared with a number, or with another of the same labels. */
export interface Alert {
  readonly name: string;
  readonly left: Selector;
  readonly operator: string;
  readonly right: Selector | number;
}

interface Selector {
  readonly metric: string;
  readonly matchers: readonly { readonly label: string; readonly how: string; readonly value: string }[];
}

/** What they say may be so on a node that is as it ought to be: objects of the API that contradict each other, which a virgin objects to as well. */
const ofObjects = new Set(['SeineObjectsNotServed']);

const selector = String.raw`(\w+)(?:\{([^}]*)\})?`;
const comparison = new RegExp(String.raw`^${selector} (==|>|<) (?:${selector}|([\d.e+]+))$`);

/** Those of the file that ships, whatever their `for`. */
export function readAlerts(): readonly Alert[] {
  const file = readFileSync(join(root, 'build', 'observability', 'alerts.yaml'), 'utf8');
  const { groups } = parse(file) as { groups: { rules: { alert: string; expr: string }[] }[] };
  return groups.flatMap(({ rules }) => rules).flatMap(({ alert, expr }) => (ofObjects.has(alert) ? [] : readAlert(alert, expr)));
}

/** None where it takes more than one look, or more than one comparison. */
export function readAlert(name: string, expression: string): readonly Alert[] {
  const [, metric, matchers, operator, otherMetric, otherMatchers] = comparison.exec(expression.trim()) ?? [];
  if (metric === undefined || operator === undefined || otherMetric === undefined) return [];
  const number = Number(otherMetric);
  const right = Number.isNaN(number) ? selectorOf(otherMetric, otherMatchers) : number;
  return [{ name, left: selectorOf(metric, matchers), operator, right }];
}

function selectorOf(metric: string, matchers = ''): Selector {
  const found = [...matchers.matchAll(/(\w+)(=~|!~|!=|=)"([^"]*)"/g)];
  return { metric, matchers: found.map(([, label = '', how = '', value = '']) => ({ label, how, value })) };
}

interface Sample {
  readonly metric: string;
  readonly labels: ReadonlyMap<string, string>;
  readonly value: number;
}

/** Alerts that are true by these metrics (text exposition format), with their labels. */
export function firing(alerts: readonly Alert[], text: string): readonly string[] {
  const samples = [...text.matchAll(/^(\w+)(?:\{(.*)\})? (\S+)$/gm)].map(
    ([, metric = '', labels = '', value]): Sample => ({
      metric,
      labels: new Map([...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, name = '', held = '']) => [name, held])),
      value: Number(value),
    }),
  );
  return alerts.flatMap((alert) =>
    samples.filter((sample) => isOf(alert.left, sample) && isTrue(alert, sample, samples)).map((sample) => `${alert.name} ${told(sample)}`),
  );
}

function isOf({ metric, matchers }: Selector, sample: Sample): boolean {
  return metric === sample.metric && matchers.every(({ label, how, value }) => matches(how, value, sample.labels.get(label) ?? ''));
}

function matches(how: string, value: string, held: string): boolean {
  if (how === '=') return held === value;
  if (how === '!=') return held !== value;
  return new RegExp(`^(?:${value})$`).test(held) === (how === '=~');
}

function isTrue({ operator, right }: Alert, sample: Sample, all: readonly Sample[]): boolean {
  const other = typeof right === 'number' ? right : all.find((each) => isOf(right, each) && told(each) === told(sample))?.value;
  if (other === undefined) return false;
  if (operator === '==') return sample.value === other;
  return operator === '>' ? sample.value > other : sample.value < other;
}

function told({ labels, value: _ }: Sample): string {
  return [...labels]
    .map(([name, held]) => `${name}=${held}`)
    .toSorted()
    .join();
}
