import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { faults } from '../reliability/faults.ts';
import { prepare, runFault } from '../reliability/run-fault.ts';
import { ConvergeLab } from '../support/converge-lab.ts';
import { testDatapath } from '../support/test-datapath.ts';

/** The most important faults; all of them are in `npm run test:reliability`. Their cost is measured there, on an idle host. */
describe('under traffic', () => {
  let lab: ConvergeLab;

  beforeAll(async () => {
    lab = await ConvergeLab.start(2);
    await prepare(lab);
  });
  afterAll(async () => {
    await lab?.remove();
  });

  it.each(faults.filter(({ everyTime }) => everyTime))('$what: everything works again', async (fault) => {
    const context = {
      random: () => 0.5,
      rounds: 1,
      hertz: 100,
      datapath: testDatapath,
      print: () => {},
      signal: AbortSignal.timeout(60_000),
    };
    const row = await runFault({ ...fault, limits: {} }, lab, context);
    expect(row.problems).toEqual([]);
    expect(row.connectsFailed).toBe(0);
  });
});
