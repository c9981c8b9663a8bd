import { expect, it } from 'vitest';
import { DeniedMeterCounts } from './follow-denied-log.ts';

it('reports drops of meters of denied packets since the last call, of a recreated one from 0, and none of others', () => {
  const reported: (readonly [meter: number, packets: number])[] = [];
  const counts = new DeniedMeterCounts((meter, packets) => reported.push([meter, packets]));
  const see = (...meters: readonly (readonly [id: number, packets: bigint])[]) =>
    counts.see(meters.map(([id, packets]) => ({ id, packets, bands: [{ packets }] })));
  see([0x1_8017, 1_000n], [7, 5n]);
  expect(reported).toEqual([]);
  see([0x1_8017, 1_030n], [0x1_8018, 4n], [7, 50n]);
  see([0x1_8017, 2n]);
  see([0x1_8017, 2n]);
  expect(reported).toEqual([
    [0x1_8017, 30],
    [0x1_8018, 4],
    [0x1_8017, 2],
  ]);
});
