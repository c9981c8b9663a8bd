import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type Family, type Ip, ipFromValue } from '../../../../base/net/ip.ts';
import { nothing } from '../../../desired/host-entries.ts';
import { ownerOf } from '../../../pipeline/cookie.ts';
import { reg } from '../../../pipeline/fields.ts';
import { type Flow, group, load, type Transport } from '../../../pipeline/flow.ts';
import { type EntryPattern, type EntryPlace, PatternFlow } from '../../../pipeline/flow-pattern.ts';
import { encodeBridgeEntries } from '../bridge-entry.ts';

const transports: readonly Transport[] = ['tcp', 'udp', 'sctp'];
const bits = { ipv4: 32n, ipv6: 128n } as const;
const ips: fc.Arbitrary<Ip> = fc
  .constantFrom<Family>('ipv4', 'ipv6')
  .chain((family) => fc.bigInt(0n, 2n ** bits[family] - 1n).map((value) => ipFromValue(family, value)));
const number = fc.integer({ min: 0, max: 0xffff_ff00 });
const places: fc.Arbitrary<EntryPlace> = fc.record({
  ip: ips,
  port: fc.integer({ min: 1, max: 65_535 }),
  numbers: fc.tuple(number, number),
});

/** Pattern like those of Services. */
const pattern =
  (transport: Transport): EntryPattern =>
  ({ ip, port, numbers: [identity, id] }) => ({
    table: 'balance',
    priority: 200,
    match: { payload: ip.family, protocol: transport, ipDst: ip, portDst: port, regs: [reg.serviceState('choose')] },
    steps: [load(reg.routed('yes')), load(reg.group(identity)), group(id)],
  });
const patterns = new Map(transports.map((transport) => [transport, pattern(transport)]));

function entriesOf(flow: Flow, owner = ownerOf('service', 'a')): readonly (readonly [string, string])[] {
  return [...encodeBridgeEntries(owner, { ...nothing, flows: [flow] })];
}

it('yields the same entry as encoding the flow, for each owner', () => {
  fc.assert(
    fc.property(places, fc.constantFrom(...transports), fc.string(), (place, transport, name) => {
      const owner = ownerOf('service', name);
      const made = patterns.get(transport) ?? pattern(transport);
      const { table, priority, match, steps } = new PatternFlow(made, place);
      expect(entriesOf(new PatternFlow(made, place), owner)).toEqual(entriesOf({ table, priority, match, steps }, owner));
    }),
  );
});

it.each<[string, EntryPattern]>([
  ['a number is added to', ({ numbers: [identity] }) => leading(identity + 99, 1)],
  ['the port is shifted', ({ port }) => leading((port << 1) & 0xffff, 1)],
  ['the numbers are summed up', ({ numbers: [identity, id] }) => leading(1, (identity + id) >>> 0)],
])('refuses a pattern where %s', (_, odd) => {
  const place: EntryPlace = { ip: ipFromValue('ipv4', 1n), port: 80, numbers: [1, 2] };
  expect(() => entriesOf(new PatternFlow(odd, place))).toThrow(/differ by more/);
});

function leading(identity: number, id: number): Flow {
  return { table: 'balance', priority: 1, match: {}, steps: [load(reg.group(identity)), group(id)] };
}
