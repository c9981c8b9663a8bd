import { badRequest } from '../errors/api-error.ts';

export type Labels = Readonly<Record<string, string>>;
export type LabelMatcher = (labels: Labels) => boolean;

/** `metav1.LabelSelector`. */
export interface LabelSelector {
  readonly matchLabels?: Labels;
  readonly matchExpressions?: readonly { readonly key: string; readonly operator: string; readonly values?: readonly string[] }[];
}

/**
 * Compiles the query form: `a=b,c!=d,e in (x,y),f notin (z),g,!h,i>1,j<2`.
 *
 * @throws ApiError 400 if the text is not a selector
 */
export function parseLabelSelector(text: string): LabelMatcher {
  const matchers = splitRequirements(text).map(parseRequirement);
  return (labels) => matchers.every((matches) => matches(labels));
}

/** Compiles the object form. An empty selector matches everything; the caller defines the meaning of an absent one. */
export function compileLabelSelector(selector: LabelSelector): LabelMatcher {
  const exact = Object.entries(selector.matchLabels ?? {});
  const expressions = (selector.matchExpressions ?? []).map(({ key, operator, values }) =>
    requirement(key, operator.toLowerCase(), values ?? []),
  );
  return (labels) =>
    exact.every(([key, value]) => has(labels, key) && labels[key] === value) && expressions.every((matches) => matches(labels));
}

/** Splits at commas outside parentheses. */
function splitRequirements(text: string): string[] {
  return text
    .split(/,(?![^(]*\))/)
    .map((part) => part.trim())
    .filter((part) => part !== '');
}

const keyPattern = `([A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?)`;
const forms: readonly [RegExp, (match: RegExpExecArray) => LabelMatcher][] = [
  [
    new RegExp(`^${keyPattern}\\s*(==|=|!=)\\s*([-A-Za-z0-9_.]*)$`),
    (m) => requirement(m[1] ?? '', m[3] === '!=' ? 'notin' : 'in', [m[4] ?? '']),
  ],
  [
    new RegExp(`^${keyPattern}\\s+(in|notin)\\s*\\(([^()]*)\\)$`),
    (m) =>
      requirement(
        m[1] ?? '',
        m[3] ?? '',
        (m[4] ?? '').split(',').map((v) => v.trim()),
      ),
  ],
  [new RegExp(`^${keyPattern}\\s*([<>])\\s*(-?\\d+)$`), (m) => requirement(m[1] ?? '', m[3] === '>' ? 'gt' : 'lt', [m[4] ?? ''])],
  [new RegExp(`^${keyPattern}$`), (m) => requirement(m[1] ?? '', 'exists', [])],
  [new RegExp(`^!\\s*${keyPattern}$`), (m) => requirement(m[1] ?? '', 'doesnotexist', [])],
];

function parseRequirement(text: string): LabelMatcher {
  for (const [form, build] of forms) {
    const match = form.exec(text);
    if (match) return build(match);
  }
  throw badRequest(`unable to parse requirement: ${JSON.stringify(text)} is not a label selector`);
}

function requirement(key: string, operator: string, values: readonly string[]): LabelMatcher {
  const wanted = new Set(values);
  const limit = Number(values[0]);
  switch (operator) {
    case 'in':
      return (labels) => has(labels, key) && wanted.has(labels[key] ?? '');
    case 'notin':
      return (labels) => !has(labels, key) || !wanted.has(labels[key] ?? '');
    case 'exists':
      return (labels) => has(labels, key);
    case 'doesnotexist':
      return (labels) => !has(labels, key);
    case 'gt':
      return (labels) => has(labels, key) && Number(labels[key]) > limit;
    case 'lt':
      return (labels) => has(labels, key) && Number(labels[key]) < limit;
    default:
      throw badRequest(`"${operator}" is not a valid label selector operator`);
  }
}

function has(labels: Labels, key: string): boolean {
  return Object.hasOwn(labels, key);
}

/** One term of a field selector: `path=value`, `path==value` or `path!=value`. */
interface FieldTerm {
  readonly path: string;
  readonly value: string;
  readonly equal: boolean;
}

/** @throws ApiError 400 if the text is not a field selector */
export function parseFieldSelector(text: string): FieldTerm[] {
  return text
    .split(/(?<!\\),/)
    .filter((part) => part.trim() !== '')
    .map((part) => {
      const match = /^\s*([^=!]+?)\s*(!=|==|=)\s*(.*?)\s*$/s.exec(part);
      if (!match) throw badRequest(`invalid selector: '${part}'; can't understand '${part}'`);
      return { path: match[1] ?? '', equal: match[2] !== '!=', value: (match[3] ?? '').replaceAll(/\\([\\,=])/g, '$1') };
    });
}
