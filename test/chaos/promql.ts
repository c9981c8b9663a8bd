import type { SyntaxNode } from '@lezer/common';
import { parser } from '@prometheus-io/lezer-promql';

export interface Sample {
  readonly labels: ReadonlyMap<string, string>;
  readonly value: number;
}

/** Metrics of one scrape. */
export interface Scrape {
  readonly atMs: number;
  readonly samples: ReadonlyMap<string, readonly Sample[]>;
}

type Vector = readonly Sample[];
type Value = number | Vector;

/** An expression of PromQL, limited to what the shipped rules need: any other throws. */
export class Expression {
  readonly #text: string;
  readonly #root: SyntaxNode;

  constructor(text: string) {
    this.#text = text;
    const { topNode } = parser.parse(text);
    if (/⚠/.test(String(parser.parse(text))) || topNode.firstChild === null) throw new Error(`no expression: ${text}`);
    this.#root = topNode.firstChild;
  }

  /** Names of its metrics. */
  get metrics(): readonly string[] {
    const found: string[] = [];
    this.#root.cursor().iterate(({ node }) => {
      if (node.name === 'Identifier') found.push(this.#of(node));
    });
    return found;
  }

  /** True if it reads past values, not only the last one. */
  get looksBack(): boolean {
    return this.#text.includes('[');
  }

  /** Evaluates scrapes in their order. The last is now; windows are their span. */
  evaluate(scrapes: readonly Scrape[]): Vector {
    const value = this.#value(this.#root, scrapes);
    return typeof value === 'number' ? [{ labels: new Map(), value }] : value;
  }

  #of({ from, to }: SyntaxNode): string {
    return this.#text.slice(from, to);
  }

  #value(node: SyntaxNode, scrapes: readonly Scrape[]): Value {
    switch (node.name) {
      case 'NumberDurationLiteral':
        return Number(this.#of(node));
      case 'ParenExpr':
        return this.#value(only(node), scrapes);
      case 'VectorSelector':
        return this.#selected(node, scrapes.at(-1));
      case 'FunctionCall':
        return this.#called(node, scrapes);
      case 'AggregateExpr':
        return this.#aggregated(node, scrapes);
      case 'BinaryExpr':
        return this.#binary(node, scrapes);
      default:
        throw new Error(`${node.name} is not understood: ${this.#text}`);
    }
  }

  #vector(node: SyntaxNode, scrapes: readonly Scrape[]): Vector {
    const value = this.#value(node, scrapes);
    if (typeof value === 'number') throw new Error(`a vector is wanted: ${this.#of(node)}`);
    return value;
  }

  #selected(node: SyntaxNode, scrape: Scrape | undefined): Vector {
    const matchers = node.getChild('LabelMatchers')?.getChildren('UnquotedLabelMatcher') ?? [];
    const name = node.getChild('Identifier');
    const all = (name && scrape?.samples.get(this.#of(name))) ?? [];
    return all.filter(({ labels }) => matchers.every((matcher) => this.#matches(matcher, labels)));
  }

  #matches(matcher: SyntaxNode, labels: Sample['labels']): boolean {
    const [label = '', how = '', quoted = ''] = ['LabelName', 'MatchOp', 'StringLiteral'].map((name) => this.#of(child(matcher, name)));
    const [held, wanted] = [labels.get(label) ?? '', quoted.slice(1, -1)];
    if (how === '=') return held === wanted;
    if (how === '!=') return held !== wanted;
    return new RegExp(`^(?:${wanted})$`).test(held) === (how === '=~');
  }

  #called(node: SyntaxNode, scrapes: readonly Scrape[]): Vector {
    const name = this.#of(child(node, 'FunctionIdentifier'));
    const args = childrenOf(child(node, 'FunctionCallBody'));
    const [first, second] = args;
    if (first === undefined) throw new Error(`${name} of nothing`);
    if (name === 'histogram_quantile' && second !== undefined) return quantile(Number(this.#of(first)), this.#vector(second, scrapes));
    const seconds = ((scrapes.at(-1)?.atMs ?? 0) - (scrapes[0]?.atMs ?? 0)) / 1_000;
    const of = { increase, changes, rate: (values: readonly number[]) => increase(values) / seconds }[name];
    if (of === undefined) throw new Error(`${name} is not understood: ${this.#text}`);
    return this.#series(child(first, 'VectorSelector'), scrapes)
      .filter(({ values }) => values.length > 1)
      .map(({ labels, values }) => ({ labels, value: of(values) }));
  }

  #series(selector: SyntaxNode, scrapes: readonly Scrape[]): readonly { labels: Sample['labels']; values: number[] }[] {
    const found = new Map<string, { labels: Sample['labels']; values: number[] }>();
    for (const scrape of scrapes)
      for (const { labels, value } of this.#selected(selector, scrape)) {
        const known = found.get(labelKey(labels));
        if (known === undefined) found.set(labelKey(labels), { labels, values: [value] });
        else known.values.push(value);
      }
    return [...found.values()];
  }

  #aggregated(node: SyntaxNode, scrapes: readonly Scrape[]): Vector {
    const counts = this.#of(child(node, 'AggregateOp')) === 'count';
    const by = this.#labels(node.getChild('AggregateModifier')?.getChild('GroupingLabels') ?? undefined);
    const groups = new Map<string, Sample>();
    for (const { labels, value } of this.#vector(only(child(node, 'FunctionCallBody')), scrapes)) {
      const kept = new Map([...labels].filter(([label]) => by.includes(label)));
      const before = groups.get(labelKey(kept))?.value ?? 0;
      groups.set(labelKey(kept), { labels: kept, value: before + (counts ? 1 : value) });
    }
    return [...groups.values()];
  }

  #labels(node: SyntaxNode | undefined): readonly string[] {
    return (node?.getChildren('LabelName') ?? []).map((label) => this.#of(label));
  }

  #binary(node: SyntaxNode, scrapes: readonly Scrape[]): Vector {
    const [left, right] = [childrenOf(node)[0], childrenOf(node).at(-1)];
    const operator = childrenOf(node)[1]?.name ?? '';
    if (left === undefined || right === undefined) throw new Error(`${this.#text}: an operand is missing`);
    const on = node.getChild('MatchingModifierClause')?.getChild('GroupingLabels');
    const key = ({ labels }: Sample): string =>
      labelKey(on ? new Map([...labels].filter(([label]) => this.#labels(on).includes(label))) : labels);
    const [one, other] = [this.#vector(left, scrapes), this.#value(right, scrapes)];
    const others = typeof other === 'number' ? undefined : new Map(other.map((sample) => [key(sample), sample]));
    if (operator === 'And') return one.filter((sample) => others?.has(key(sample)));
    if (operator === 'Unless') return one.filter((sample) => !others?.has(key(sample)));
    if (operator === 'Or') {
      const known = new Set(one.map(key));
      return [...one, ...(typeof other === 'number' ? [] : other).filter((sample) => !known.has(key(sample)))];
    }
    return one.flatMap((sample) => {
      const with_ = typeof other === 'number' ? other : others?.get(key(sample))?.value;
      return with_ === undefined ? [] : compared(operator, sample, with_);
    });
  }
}

function compared(operator: string, sample: Sample, other: number): Vector {
  if (operator === 'Div') return [{ ...sample, value: sample.value / other }];
  const holds = { Gtr: sample.value > other, Lss: sample.value < other, Eql: sample.value === other }[operator];
  if (holds === undefined) throw new Error(`${operator} is not understood`);
  return holds ? [sample] : [];
}

/** Increase of a counter, which restarts with its process. */
function increase(values: readonly number[]): number {
  return values.slice(1).reduce((sum, value, index) => sum + (value < (values[index] ?? 0) ? value : value - (values[index] ?? 0)), 0);
}

function changes(values: readonly number[]): number {
  return values.slice(1).filter((value, index) => value !== values[index]).length;
}

/** Linear interpolation within the bucket, as in Prometheus. */
function quantile(of: number, buckets: Vector): Vector {
  const groups = new Map<string, { labels: Sample['labels']; buckets: (readonly [number, number])[] }>();
  for (const { labels, value } of buckets) {
    const rest = new Map([...labels].filter(([label]) => label !== 'le'));
    const group = groups.get(labelKey(rest)) ?? { labels: rest, buckets: [] };
    group.buckets.push([Number((labels.get('le') ?? '').replace('+Inf', 'Infinity')), value]);
    groups.set(labelKey(rest), group);
  }
  return [...groups.values()].map(({ labels, buckets: all }) => ({
    labels,
    value: interpolated(
      of,
      all.toSorted(([a], [b]) => a - b),
    ),
  }));
}

function interpolated(of: number, buckets: readonly (readonly [number, number])[]): number {
  const rank = of * (buckets.at(-1)?.[1] ?? 0);
  const at = buckets.findIndex(([, count]) => count >= rank && count > 0);
  const [end, count] = buckets[at] ?? [Number.NaN, 0];
  const [begin, before] = buckets[at - 1] ?? [0, 0];
  if (end === Infinity) return begin;
  return begin + ((end - begin) * (rank - before)) / (count - before);
}

function labelKey(labels: ReadonlyMap<string, string>): string {
  return [...labels]
    .map(([name, held]) => `${name}=${held}`)
    .toSorted()
    .join();
}

function child(node: SyntaxNode, name: string): SyntaxNode {
  const found = node.getChild(name);
  if (found === null) throw new Error(`${node.name} has no ${name}`);
  return found;
}

function childrenOf(node: SyntaxNode): readonly SyntaxNode[] {
  const all: SyntaxNode[] = [];
  for (let at = node.firstChild; at !== null; at = at.nextSibling) all.push(at);
  return all;
}

function only(node: SyntaxNode): SyntaxNode {
  const [first] = childrenOf(node);
  if (first === undefined) throw new Error(`${node.name} is empty`);
  return first;
}
