import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ProposalLab } from '../support/proposal-lab.ts';
import { proposals } from '../support/proposal-scene.ts';

/** Number of proposals that are applied; `npm run test:random -- --only applied` has more. */
const runs = Number(process.env['SEINE_TEST_APPLIED_PROPOSALS'] ?? 3);
const seed = Number(process.env['SEINE_TEST_SEED'] ?? Date.now() % 1_000_000);
let lab: ProposalLab;

beforeAll(async () => {
  lab = await ProposalLab.start();
});
afterAll(async () => lab?.remove());

it('the comparison finds connections that a prediction left out', async () => {
  const spec = { podSelector: {}, policyTypes: ['Ingress'], ingress: [] };
  await lab.apply([{ put: 'NetworkPolicy', key: 'blue/left-out', spec: { ...spec, ingress: [{}] } }]);
  const { wrong } = await lab.apply([{ put: 'NetworkPolicy', key: 'blue/left-out', spec: { ...spec, ingress: [] } }], {
    hide: () => true,
    observations: 2,
  });
  expect(wrong.length).toBeGreaterThan(0);
  expect(wrong[0]).toContain('-> blue/');
});

it(`applied proposals change exactly the predicted connections (SEINE_TEST_SEED=${seed})`, {
  timeout: 300_000 + runs * 60_000,
}, async () => {
  const totals = { proposals: 0, cells: 0, changed: 0 };
  const failures: object[] = [];
  for (const steps of fc.sample(proposals, { seed, numRuns: runs })) {
    const { wrong, cells, changed } = await lab.apply(steps);
    totals.proposals++;
    if (wrong.length > 0) failures.push({ proposal: totals.proposals, steps: JSON.stringify(steps), wrong });
    totals.cells += cells;
    totals.changed += changed;
    if (totals.proposals % 10 === 0) process.stdout.write(`${JSON.stringify({ ...totals, failed: failures.length })}\n`);
  }
  process.stdout.write(`${JSON.stringify(totals)}\n`);
  expect(failures).toEqual([]);
  if (runs >= 20) expect(totals.changed).toBeGreaterThan(runs);
});
