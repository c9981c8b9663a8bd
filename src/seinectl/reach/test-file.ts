import { dirname, resolve } from 'node:path';
import { type TestCases, testCasesOf } from '../../policy/cases/test-cases.ts';
import { documentsOf } from '../../policy/reach/manifest-documents.ts';
import { textOf } from './sources.ts';

/** Test file (`tests: seine.dev/v1`). Its `objects` are paths of files and folders; undefined: those of the command line. */
export interface TestFile extends TestCases {
  readonly path: string;
}

/** @throws SeineError `INVALID_INPUT` that names the file, the case and the field */
export function readTestFile(path: string): TestFile {
  const cases = testCasesOf(path, documentsOf(path, textOf(path)));
  const folder = path === '-' ? '.' : dirname(path);
  return { ...cases, path, ...(cases.objects && { objects: cases.objects.map((each) => resolve(folder, each)) }) };
}
