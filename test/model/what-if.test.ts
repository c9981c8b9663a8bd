import fc from 'fast-check';
import { expect, it } from 'vitest';
import { whatIf } from '../../src/simulate/what-if/what-if.ts';
import { batches, timeoutOf } from '../support/batches.ts';
import { compareWithReference, proposedCases } from './what-if-run.ts';

/** Number of random proposals; `npm run test:random -- --only what-if` has more. */
const runs = Number(process.env['SEINE_TEST_PROPOSALS'] ?? 40);
const seed = Number(process.env['SEINE_TEST_SEED'] ?? Date.now() % 1_000_000);

it(`predicts what the reference finds before and after random proposals (SEINE_TEST_SEED=${seed})`, {
  timeout: timeoutOf(runs),
}, async () => {
  let changed = 0;
  for await (const batch of batches('proposals and reference', { seed, runs }))
    fc.assert(
      fc.property(proposedCases, (proposed) => {
        const compared = compareWithReference(proposed);
        expect(compared.wrong).toEqual([]);
        changed += compared.changed;
      }),
      { seed: batch.seed, numRuns: batch.runs, endOnFailure: true },
    );
  process.stdout.write(`${changed} changed cells\n`);
  expect(changed).toBeGreaterThan(runs);
});

it('the comparison detects a prediction that ignores labels', () => {
  const blind: typeof whatIf = (before, { documents, removed }) =>
    whatIf(before, { removed, documents: documents.filter(({ object }) => !/"kind":"(?:Pod|Namespace)"/.test(JSON.stringify(object))) });
  const property = fc.property(proposedCases, (proposed) => compareWithReference(proposed, blind).wrong.length === 0);
  expect(fc.check(property, { seed: 7, numRuns: 60, endOnFailure: true }).failed).toBe(true);
});
