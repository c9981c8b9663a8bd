import * as z from 'zod';
import { SeineError } from '../../base/errors/seine-error.ts';
import { parseObject } from '../../kubernetes/client/resource.ts';
import { type CaseResult, CaseRunner, caseSchema, type ReachCase } from '../reach/cases.ts';
import type { ManifestDocument } from '../reach/from-manifests.ts';
import type { ReachObjects } from '../reach/objects.ts';
import { Reach } from '../reach/reach.ts';
import { rulesOfPolicies } from '../reach/rules.ts';

/** Document of test cases (`tests: seine.dev/v1`). */
export interface TestCases {
  /** Files and folders with the objects, as they are written. */
  readonly objects?: readonly string[];
  readonly cases: readonly NumberedCase[];
  /** Least share of rules that a case must use (percent). */
  readonly leastCoverage?: number;
}

export interface NumberedCase {
  /** Position in the file, from 1. */
  readonly number: number;
  /** The case as written, for messages. */
  readonly text: string;
  readonly test: ReachCase;
}

/** Results of the cases of a document. */
interface TestedCases {
  readonly results: readonly (NumberedCase & { readonly result: CaseResult; readonly milliseconds: number })[];
  readonly rules: number;
  /** Rules that no case uses, `namespace/name spec.ingress[2]`. */
  readonly unusedRules: readonly string[];
  /** Share of rules that a case uses (percent, rounded down). */
  readonly coverage: number;
}

const CASES_MAX = 100_000;

const schema = z.strictObject({
  tests: z.literal('seine.dev/v1'),
  objects: z.array(z.string().min(1)).optional(),
  cases: z.array(z.unknown()).min(1).max(CASES_MAX),
  coverage: z.strictObject({ rules: z.number().min(0).max(100) }).optional(),
});

/** Reads the one document of a test file. @throws SeineError `INVALID_INPUT` that names the place, the case and the field */
export function testCasesOf(place: string, documents: readonly ManifestDocument[]): TestCases {
  const [document, ...more] = documents;
  if (!document || more.length > 0) throw new SeineError('INVALID_INPUT', `${place}: a test file is one YAML document`);
  const { objects, cases, coverage } = at(place, () => parseObject(schema, document.object));
  return {
    ...(objects ? { objects } : {}),
    cases: cases.map((raw, index) => ({
      number: index + 1,
      text: textOfCase(raw),
      test: at(`${place} cases[${index}]`, () => parseObject(caseSchema, raw)),
    })),
    ...(coverage ? { leastCoverage: coverage.rules } : {}),
  };
}

/** Evaluates cases. @param nowMs clock, for the time of each case @throws SeineError `INVALID_INPUT` for a Service that does not exist */
export function runTestCases({ cases }: TestCases, objects: ReachObjects, nowMs: () => number): TestedCases {
  const runner = new CaseRunner(new Reach(objects));
  const results = cases.map((each) => {
    const startMs = nowMs();
    const result = runner.run(each.test);
    return { ...each, result, milliseconds: nowMs() - startMs };
  });
  const rules = rulesOfPolicies(objects);
  const unusedRules = rules.filter((rule) => !runner.decided.has(rule));
  const coverage = rules.length === 0 ? 100 : Math.floor((100 * (rules.length - unusedRules.length)) / rules.length);
  return { results, rules: rules.length, unusedRules, coverage };
}

function at<T>(place: string, read: () => T): T {
  try {
    return read();
  } catch (thrown) {
    throw new SeineError('INVALID_INPUT', `${place}: ${SeineError.from(thrown, 'parse').rawMessage}`, { cause: thrown });
  }
}

function textOfCase(raw: unknown): string {
  const { name, from, to, port = 'any', expect } = (raw ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof name === 'string') return name;
  const [source, destination] = [from, to].map((end) => (typeof end === 'string' ? end : JSON.stringify(end)));
  return `${source} to ${destination}, ${String(port)}: ${String(expect)}`;
}
