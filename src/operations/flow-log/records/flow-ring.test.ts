import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { endKinds, type FlowDecision, flowVerdicts } from '../../../api/flow-log.ts';
import { type Family, ipFromValue, parseIp } from '../../../base/net/ip.ts';
import type { FlowRecord, RecordedEnd } from './flow-record.ts';
import { FlowRing } from './flow-ring.ts';
import { RecordedNames } from './names.ts';

const u48 = fc.nat({ max: 2 ** 48 - 1 });
const port = fc.integer({ min: 0, max: 65_535 });
const name = fc.stringMatching(/^[a-z]{1,8}\/[a-z0-9-]{1,12}$/);
const decision: fc.Arbitrary<FlowDecision> = fc.record({
  verdict: fc.constantFrom('allowed', 'denied'),
  by: fc.array(fc.stringMatching(/^[a-z]{1,8}\/[a-z]{1,8} spec\.ingress\[\d\]$/), { maxLength: 3 }),
});

function ipOf(family: Family) {
  return family === 'ipv4'
    ? fc.nat({ max: 2 ** 32 - 1 }).map((value) => ipFromValue('ipv4', BigInt(value)))
    : fc.bigInt({ min: 0n, max: 2n ** 128n - 1n }).map((value) => ipFromValue('ipv6', value));
}

const optional = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined });

function present<T extends object>(value: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined)) as never;
}

const record: fc.Arbitrary<FlowRecord> = fc.constantFrom<Family>('ipv4', 'ipv6').chain((family) => {
  const end: fc.Arbitrary<RecordedEnd> = fc
    .record({ ip: ipOf(family), port: optional(port), kind: fc.constantFrom(...endKinds), name: optional(name) })
    .map(present);
  return fc
    .record({
      timeMs: fc.nat({ max: 2 ** 42 }),
      event: fc.constantFrom('opened', 'closed', 'denied', 'refused'),
      verdict: fc.constantFrom(...flowVerdicts),
      reporter: fc.constantFrom('source', 'destination', 'both'),
      protocol: fc.nat({ max: 255 }),
      source: end,
      destination: end,
      service: optional(fc.record({ ip: ipOf(family), port: optional(port), name: optional(name) }).map(present)),
      egress: optional(decision),
      ingress: optional(decision),
      reason: optional(fc.constantFrom('no rule of spec.ingress allows it', 'no endpoint')),
      repeated: optional(fc.integer({ min: 1, max: 2 ** 32 - 1 })),
      counters: optional(fc.record({ out: u48, in: u48 })),
      startedMs: optional(fc.nat({ max: 2 ** 42 })),
      duration: optional(fc.nat({ max: 2 ** 31 })),
    })
    .map(({ counters, duration, repeated, ...rest }) => {
      const isTimed = duration !== undefined && rest.startedMs !== undefined;
      const end = isTimed ? { endedMs: (rest.startedMs ?? 0) + duration } : { repeated };
      return present({ ...rest, ...end, packets: counters, bytes: counters }) as FlowRecord;
    });
});

describe('the ring of records', () => {
  it('returns what was written, with its number', () => {
    fc.assert(
      fc.property(fc.array(record, { minLength: 1, maxLength: 40 }), (records) => {
        const ring = new FlowRing(16);
        const numbers = records.map((each) => ring.add(each));
        expect(numbers).toEqual(records.map((_, index) => index));
        for (const [number, each] of records.entries())
          expect(ring.get(number)).toEqual(number < records.length - 16 ? undefined : { number, ...each });
      }),
    );
  });

  it('counts repeated packets and marks answered ones, in place', () => {
    const ring = new FlowRing(2);
    const end = { ip: parseIp('10.0.0.1'), kind: 'pod' } as const;
    const denied: FlowRecord = {
      ...{ timeMs: 1, event: 'denied', verdict: 'denied', reporter: 'destination', protocol: 6 },
      ...{ source: end, destination: end },
    };
    const number = ring.add(denied);
    ring.repeat(number);
    ring.repeat(number);
    ring.refuse(number);
    expect(ring.get(number)).toEqual({ ...denied, number, event: 'refused', verdict: 'refused', repeated: 2 });
    ring.add(denied);
    ring.add(denied);
    ring.repeat(number); // overwritten: its slot has another record
    expect(ring.get(2)).toEqual({ ...denied, number: 2 });
  });

  it('records without a name what finds no room, and counts it', () => {
    const ring = new FlowRing(4, new RecordedNames(2));
    const end = (host: string): RecordedEnd => ({ ip: parseIp('10.0.0.1'), kind: 'pod', name: host });
    const opened: FlowRecord = {
      ...{ timeMs: 1, event: 'opened', verdict: 'allowed', reporter: 'source', protocol: 6 },
      ...{ source: end('a/a'), destination: end('a/b') },
    };
    ring.add(opened);
    ring.add({ ...opened, destination: end('a/c') });
    expect(ring.get(1)?.destination.name).toBeUndefined();
    expect(ring.namesRefused).toBe(1);
    // The second generation, which begins when the ring has been written once, has room again.
    for (let count = 0; count < 3; count++) ring.add({ ...opened, destination: end('a/c') });
    expect(ring.get(4)?.destination.name).toBe('a/c');
    expect(ring.get(3)?.source.name).toBe('a/a');
  });
});
