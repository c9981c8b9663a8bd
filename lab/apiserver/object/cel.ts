import { Environment } from '@marcbachmann/cel-js';

/** Variables available to an expression of an admission policy. Source: Kubernetes API reference, ValidatingAdmissionPolicySpec. */
const names = ['object', 'oldObject', 'request', 'variables'] as const;

export type CelContext = Readonly<Record<(typeof names)[number], unknown>>;

const environment = names.reduce((made, name) => made.registerVariable(name, 'dyn'), new Environment());

export interface CelExpression {
  readonly text: string;
  /** @throws Error for a missing field, a wrong type and the like, as in CEL */
  evaluate(context: CelContext): unknown;
}

/** @throws Error if the text is not an expression, names an unknown variable, or cannot have the required type */
export function parseCel(text: string, wanted: 'bool' | 'string' | 'any'): CelExpression {
  const parsed = environment.parse(text);
  const { valid, type, error } = parsed.check();
  if (!valid) throw error ?? new Error('is no expression');
  if (wanted !== 'any' && type !== wanted && type !== 'dyn') throw new Error(`must evaluate to ${wanted}, is ${type}`);
  return { text, evaluate: (context) => parsed(context) as unknown };
}
