/**
 * Share of the random runs of models: `npm test` makes a fifth of them, with new seeds each time, and `npm run test:random -- --only models`,
 * which CI runs, makes all.
 */
const share = Number(process.env['SEINE_TEST_MODEL_SHARE'] ?? '0.2');

/** Returns how many runs of a random test this run makes. @param all number of runs that the test has in full */
export function modelRuns(all: number): number {
  return Math.ceil(all * share);
}
