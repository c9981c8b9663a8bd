import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type Family, type Ip, ipFromValue } from '../../../../base/net/ip.ts';
import { encodeGroup, encodeGroupAround } from '../../../../openflow/groups/group.ts';
import { reg } from '../../../pipeline/fields.ts';
import { load, PatternBucket, resubmit, type StepsPattern } from '../../../pipeline/flow.ts';
import { BucketTemplates } from './bucket-template.ts';
import { toActions } from './to-openflow.ts';

const bits = { ipv4: 32n, ipv6: 128n } as const;
const ips: fc.Arbitrary<Ip> = fc
  .constantFrom<Family>('ipv4', 'ipv6')
  .chain((family) => fc.bigInt(0n, 2n ** bits[family] - 1n).map((value) => ipFromValue(family, value)));
const passes: StepsPattern = () => [resubmit('egressEntry')];
/** Steps like those of a Service: a `ct` that translates, and registers that another table matches. */
const translates: StepsPattern = ({ ip, port }) => [
  { do: 'ct', zone: 7, commit: true, next: 'egressEntry', nat: { kind: 'dst', ip, port }, exec: [] },
];
const chooses: StepsPattern = ({ ip, port }) => {
  const word = (at: bigint): number => Number((ip.value >> (32n * at)) & 0xffff_ffffn);
  const address =
    ip.family === 'ipv4'
      ? [reg.endpointIpv4(word(0n))]
      : [reg.endpointIpv6a(word(3n)), reg.endpointIpv6b(word(2n)), reg.endpointIpv6c(word(1n)), reg.endpointIpv6d(word(0n))];
  return [...[...address, reg.endpointPort(port), reg.serviceState('chosen')].map(load), resubmit('dnat')];
};
const marked: StepsPattern = (place) => [load(reg.routed('yes')), load(reg.group(77)), ...translates(place)];
const patterns = [passes, translates, chooses, marked];
const buckets = fc.array(
  fc.record({
    weight: fc.integer({ min: 1, max: 0xffff }),
    pattern: fc.constantFrom(...patterns),
    place: fc.record({ ip: ips, port: fc.integer({ min: 1, max: 0xffff }) }),
    isPlain: fc.boolean(),
  }),
  { maxLength: 12 },
);

const head = { type: 'select', selection: { method: 'dp_hash' } } as const;

it('yields the same bytes as encoding the steps of each bucket', () => {
  const templates = new BucketTemplates();
  fc.assert(
    fc.property(buckets, fc.integer({ min: 0, max: 0xffff_ff00 }), (all, id) => {
      const group = {
        id,
        ...head,
        buckets: all.map(({ weight, pattern, place }, at) => ({ id: at, weight, actions: toActions(pattern(place)) })),
      };
      const made = encodeGroupAround({ id, ...head }, (w) => {
        for (const [at, { weight, pattern, place, isPlain }] of all.entries())
          templates.write(w, isPlain ? { weight, steps: pattern(place) } : new PatternBucket(weight, pattern, place), at);
      });
      expect(Buffer.from(made).toString('hex')).toBe(Buffer.from(encodeGroup(group)).toString('hex'));
    }),
  );
});

it('rejects a pattern in which the port is shifted', () => {
  const shifted: StepsPattern = ({ port }) => [load(reg.endpointPort((port << 1) & 0xffff))];
  const bucket = new PatternBucket(1, shifted, { ip: ipFromValue('ipv4', 1n), port: 80 });
  expect(() => encodeGroupAround({ id: 1, ...head }, (w) => new BucketTemplates().write(w, bucket, 0))).toThrow(/differ by more/);
});
