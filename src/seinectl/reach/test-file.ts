import { dirname, resolve } from 'node:path';
import * as z from 'zod';
import { SeineError } from '../../base/errors/seine-error.ts';
import { parseObject } from '../../kubernetes/client/resource.ts';
import { caseSchema, type ReachCase } from '../../policy/reach/cases.ts';
import { documentsOf, textOf } from './sources.ts';

/** Test file (`tests: seine.dev/v1`). */
export interface TestFile {
  readonly path: string;
  /** Files and folders with the objects; undefined: those of the command line. */
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

const CASES_MAX = 100_000;

const schema = z.strictObject({
  tests: z.literal('seine.dev/v1'),
  objects: z.array(z.string().min(1)).optional(),
  cases: z.array(z.unknown()).min(1).max(CASES_MAX),
  coverage: z.strictObject({ rules: z.number().min(0).max(100) }).optional(),
});

/** @throws SeineError `INVALID_INPUT` that names the file, the case and the field */
export function readTestFile(path: string): TestFile {
  const [document, ...more] = documentsOf(path, textOf(path));
  if (!document || more.length > 0) throw new SeineError('INVALID_INPUT', `${path}: a test file is one YAML document`);
  const { objects, cases, coverage } = at(path, () => parseObject(schema, document.object));
  const folder = path === '-' ? '.' : dirname(path);
  return {
    path,
    ...(objects ? { objects: objects.map((each) => resolve(folder, each)) } : {}),
    cases: cases.map((raw, index) => ({
      number: index + 1,
      text: textOfCase(raw),
      test: at(`${path} cases[${index}]`, () => parseObject(caseSchema, raw)),
    })),
    ...(coverage ? { leastCoverage: coverage.rules } : {}),
  };
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
