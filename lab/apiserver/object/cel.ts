import { Environment } from '@marcbachmann/cel-js';

/** What an expression of an admission policy may look at. Source: Kubernetes API reference, ValidatingAdmissionPolicySpec. */
const names = ['object', 'oldObject', 'request', 'variables'] as const;

export type CelContext = Readonly<Record<(typeof names)[number], unknown>>;

const environment = names.reduce((made, name) => made.registerVariable(name, 'dyn'), new Environment());

export interface CelExpression {
  readonly text: string;
  /** @throws Error for a missing field, a wrong type and the like, as CEL has it */
  evaluate(context: CelContext): unknown;
}

/** @throws Error if it is none, or names what there is not, or cannot be what is wanted */
export function parseCel(text: string, wanted: 'bool' | 'string' | 'any'): CelExpression {
  const parsed = environment.parse(text);
  const { valid, type, error } = parsed.check();
  if (!valid) throw error ?? new Error('is no expression');
  if (wanted !== 'any' && type !== wanted && type !== 'dyn') throw new Error(`must evaluate to ${wanted}, is ${type}`);
  return { text, evaluate: (context) => parsed(context) as unknown };
}
