import { parser } from '@prometheus-io/lezer-promql';

type SyntaxNode = ReturnType<typeof parser.parse>['topNode'];

/** A metric that an expression selects, with the labels of its matchers and groupings. */
export interface Selected {
  readonly metric: string;
  readonly labels: readonly string[];
}

export interface ReadExpression {
  /** Parse errors, as text; empty for a valid one. */
  readonly errors: readonly string[];
  readonly selected: readonly Selected[];
  /** Labels of groupings and matchings. */
  readonly grouped: readonly string[];
}

/** Metrics and labels in an expression of PromQL, by Prometheus' own grammar. */
export function readPromql(expression: string): ReadExpression {
  const text = (node: { readonly from: number; readonly to: number }): string => expression.slice(node.from, node.to);
  const errors: string[] = [];
  const selected: Selected[] = [];
  const grouped: string[] = [];
  parser.parse(expression).iterate({
    enter(ref) {
      if (ref.type.isError) errors.push(`at ${ref.from}: ${expression.slice(Math.max(0, ref.from - 10), ref.to + 10)}`);
      if (ref.name === 'VectorSelector') selected.push(selector(ref.node, text));
      if (ref.name === 'GroupingLabels') for (const label of ref.node.getChildren('LabelName')) grouped.push(text(label));
    },
  });
  return { errors, selected, grouped };
}

function selector(node: SyntaxNode, text: (node: SyntaxNode) => string): Selected {
  const name = node.getChild('Identifier');
  const matchers = node.getChild('LabelMatchers');
  const kinds = ['UnquotedLabelMatcher', 'QuotedLabelMatcher'];
  const labels = kinds.flatMap((kind) => matchers?.getChildren(kind) ?? []).flatMap((matcher) => matcher.getChild('LabelName') ?? []);
  return { metric: name ? text(name) : '', labels: labels.map(text) };
}
