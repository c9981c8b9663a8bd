import { expect, it } from 'vitest';
import { nodeMeters, refusalMeters } from '../../../dataplane/pipeline/well-known.ts';
import { readMeteredRefusals } from './refusal-meters.ts';

it('sums the packets that the meters of refusals stopped, and no others', async () => {
  const { first, count } = refusalMeters;
  const ids = [first - 1, first, first + count - 1, first + count, nodeMeters.refusals, nodeMeters.probes];
  const stats = ids.map((id, at) => ({
    id,
    flows: 1,
    packets: 0n,
    bytes: 0n,
    durationNs: 0n,
    bands: [{ packets: BigInt(10 ** at), bytes: 0n }],
  }));
  const openflow = { dumpMeterStats: () => Promise.resolve(stats) };
  expect(await readMeteredRefusals(openflow as never, AbortSignal.timeout(1_000))).toBe(10 + 100 + 10_000);
});
