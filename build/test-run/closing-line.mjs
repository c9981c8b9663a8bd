import { writeFileSync } from 'node:fs';

/**
 * The last line of a run: `N passed, N failed`. Whoever adds up several runs names a file in `SEINE_TEST_SUMS`, which has the two numbers then.
 *
 * @param {{ passed: number, failed: number }} sums
 */
export function sayClosingLine({ passed, failed }) {
  const file = process.env.SEINE_TEST_SUMS;
  if (file !== undefined) writeFileSync(file, `${passed} ${failed}\n`);
  console.log(`${passed} passed, ${failed} failed`);
}
