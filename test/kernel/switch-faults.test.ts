import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { switchFaults } from '../reliability/faults-switch.ts';
import { type FaultRow, prepare, runFault } from '../reliability/run-fault.ts';
import { table } from '../reliability/table.ts';
import { ConvergeLab } from '../support/converge-lab.ts';
import { testDatapath } from '../support/test-datapath.ts';

/** Rate that an emulated host can answer in time, on each of eighteen streams. */
const hertz = 5;
const faults = switchFaults.filter(({ name }) => ['vswitchd-gone', 'vswitchd-kill', 'vswitchd-kill-without-agent'].includes(name));

/** Packets of known flows need no ovs-vswitchd; their loss at its restart is measured, and printed. */
describe('under traffic', () => {
  let lab: ConvergeLab;
  const rows: FaultRow[] = [];

  beforeAll(async () => {
    lab = await ConvergeLab.start(2);
    await prepare(lab);
  });
  afterAll(async () => {
    console.log(table(rows));
    await lab?.remove();
  });

  it.each(faults)('$name: known flows continue, no connection breaks', async (fault) => {
    const context = { random: () => 0.5, rounds: 1, hertz, datapath: testDatapath, print: () => {}, signal: AbortSignal.timeout(580_000) };
    const row = await runFault(fault, lab, context);
    rows.push(row);
    expect(row.problems).toEqual([]);
  });
});
