import { writeFileSync } from 'node:fs';

/**
 * Prints the last line of a run: `N passed, N failed`. A caller that sums several runs names a file in `SEINE_TEST_SUMS`, which then has
 * the two numbers.
 *
 * @param {{ passed: number, failed: number }} sums
 */
export function sayClosingLine({ passed, failed }) {
  const file = process.env.SEINE_TEST_SUMS;
  if (file !== undefined) writeFileSync(file, `${passed} ${failed}\n`);
  console.log(`${passed} passed, ${failed} failed`);
}
