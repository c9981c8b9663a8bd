import { equalJson, field } from './json.ts';

/**
 * The first value at a simple JSONPath, as printer columns use it: `.spec.a`, `['a.b']`, `[0]`, `[*]`, `[?(@.type=="Ready")]`.
 *
 * @returns undefined if there is no value, or if the path uses other syntax
 */
export function readJsonPath(value: unknown, path: string): unknown {
  let here: unknown = value;
  let rest = path.replace(/^\{|\}$/g, '').replace(/^\$/, '');
  while (rest !== '') {
    const step = steps.find(({ form }) => form.test(rest));
    const match = step?.form.exec(rest);
    if (step === undefined || match === null || match === undefined) return undefined;
    here = step.take(here, match);
    rest = rest.slice(match[0].length);
  }
  return here;
}

interface JsonPathStep {
  readonly form: RegExp;
  take(value: unknown, match: RegExpExecArray): unknown;
}

const steps: readonly JsonPathStep[] = [
  {
    form: /^\.?\[\?\(@\.([\w./-]+)\s*==\s*("[^"]*"|'[^']*'|\w+)\)\]/,
    take: (value, match) => items(value).find((item) => equalJson(readJsonPath(item, `.${match[1] ?? ''}`), literal(match[2] ?? ''))),
  },
  { form: /^\.?\[\*\]/, take: (value) => items(value)[0] },
  { form: /^\.?\[(-?\d+)\]/, take: (value, match) => items(value).at(Number(match[1])) },
  { form: /^\.?\[(?:'([^']*)'|"([^"]*)")\]/, take: (value, match) => field(value, match[1] ?? match[2] ?? '') },
  { form: /^\.((?:[\w/-]|\\\.)+)/, take: (value, match) => field(value, (match[1] ?? '').replaceAll('\\.', '.')) },
];

function items(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function literal(text: string): unknown {
  if (/^["']/.test(text)) return text.slice(1, -1);
  return text === 'true' ? true : text === 'false' ? false : Number.isNaN(Number(text)) ? text : Number(text);
}
