import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ipFromValue } from '../../base/net/ip.ts';
import { bucketFor, groupsFor, slotsOf } from './service-groups.ts';
import type { ServiceEndpoint } from './service-intent.ts';

function endpoints(count: number, family: 'ipv4' | 'ipv6' = 'ipv4', first = 0): ServiceEndpoint[] {
  const base = family === 'ipv4' ? 0x0a0a_0000n : 0xfd00_0010n << 96n;
  return Array.from({ length: count }, (_, at) => ({ ip: ipFromValue(family, base + BigInt(first + at)), port: 8080 }));
}

function shares(all: readonly ServiceEndpoint[], affinitySeconds?: number) {
  return groupsFor(
    all,
    (part) => part + 1,
    () => bucketFor({ translation: 'endpoint', ...(affinitySeconds === undefined ? {} : { affinitySeconds }) }),
  );
}

describe('groupsFor', () => {
  it.each([
    [2, 64],
    [16, 64],
    [17, 128],
    [33, 256],
    [64, 256],
    [256, 256],
  ])('gives %i endpoints %i hash slots', (count, slots) => {
    expect(slotsOf(count)).toBe(slots);
    const [only] = shares(endpoints(count));
    const weights = only?.group.buckets.map(({ weight }) => weight) ?? [];
    const [total, least] = [weights.reduce((sum, weight) => sum + weight, 0), Math.min(...weights)];
    // Open vSwitch takes the next power of two, and never less than 16.
    expect(2 ** Math.ceil(Math.log2(Math.ceil(total / least)))).toBe(slots);
  });

  it('has every endpoint in one group, and none too large for a reply', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 2, max: 6000 }),
        fc.constantFrom('ipv4' as const, 'ipv6' as const),
        fc.boolean(),
        (count, family, sticky) => {
          const all = endpoints(count, family);
          const groups = shares(all, sticky ? 600 : undefined);
          const places = new Map<string, Set<number>>();
          for (const { group } of groups)
            for (const { steps } of group.buckets) {
              const key = JSON.stringify(steps);
              places.set(key, (places.get(key) ?? new Set()).add(group.id));
            }
          expect(places.size).toBe(count);
          expect([...places.values()].every((ids) => ids.size === 1)).toBe(true);
          for (const { group } of groups) expect(group.buckets.length).toBeLessThanOrEqual(257);
        },
      ),
      { numRuns: 20 },
    );
  });

  it('divides source ports without a gap, and never by their lowest bit', () => {
    const groups = shares(endpoints(5000));
    expect(groups).toHaveLength(32);
    for (const port of [1024, 1025, 32_768, 40_002, 65_535]) {
      const here = groups.filter(({ sourcePorts }) => sourcePorts && (port & sourcePorts.mask) === sourcePorts.value);
      expect(here).toHaveLength(1);
    }
    expect(groups.every(({ sourcePorts }) => sourcePorts && (sourcePorts.mask & 1) === 0)).toBe(true);
  });

  it('changes one group of many when one endpoint is removed', () => {
    const all = endpoints(5000);
    const [before, after] = [shares(all), shares(all.filter((_, at) => at !== 1234))];
    const changed = before.filter((each, at) => JSON.stringify(each.group, text) !== JSON.stringify(after[at]?.group, text));
    expect([before.length, after.length, changed.length]).toEqual([32, 32, 1]);
  });

  it('chooses by connection for Services with affinity too: a client may get another endpoint after the timeout', () => {
    const [plain, sticky] = [shares(endpoints(9))[0], shares(endpoints(9), 600)[0]];
    expect(sticky?.group.buckets.map(({ weight }) => weight)).toEqual(plain?.group.buckets.map(({ weight }) => weight));
  });
});

function text(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value;
}
