import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type Family, type Ip, ipFromValue } from '../../../base/net/ip.ts';
import { nothing } from '../../desired/host-entries.ts';
import { ownerOf } from '../../pipeline/cookie.ts';
import { reg } from '../../pipeline/fields.ts';
import type { Flow, Transport, TransportAddress } from '../../pipeline/flow.ts';
import { load } from '../../pipeline/flow.ts';
import type { FlowPattern } from '../../pipeline/flow-pattern.ts';
import { encodeBridgeEntries } from './bridge-entry.ts';
import { FlowTemplates } from './flow-template.ts';

const transports: readonly Transport[] = ['tcp', 'udp', 'sctp'];
const bits = { ipv4: 32n, ipv6: 128n } as const;
const ips: fc.Arbitrary<Ip> = fc
  .constantFrom<Family>('ipv4', 'ipv6')
  .chain((family) => fc.bigInt(0n, 2n ** bits[family] - 1n).map((value) => ipFromValue(family, value)));
const places: fc.Arbitrary<TransportAddress> = fc.record({ ip: ips, port: fc.integer({ min: 1, max: 65_535 }) });

/** Pattern like that of `compileEndpoint`: the address in registers and in an action, the port in half a register. */
function translation(transport: Transport): FlowPattern {
  return ({ ip, port }) => {
    const word = (at: bigint): number => Number((ip.value >> (32n * at)) & 0xffff_ffffn);
    const address =
      ip.family === 'ipv4'
        ? [reg.endpointIpv4(word(0n))]
        : [reg.endpointIpv6a(word(3n)), reg.endpointIpv6b(word(2n)), reg.endpointIpv6c(word(1n)), reg.endpointIpv6d(word(0n))];
    const match = { payload: ip.family, protocol: transport, regs: [...address, reg.endpointPort(port), reg.serviceState('chosen')] };
    const nat = { kind: 'dst', ip, port } as const;
    const ct = { do: 'ct', zone: 7, commit: true, next: 'egressEntry', nat, exec: [] } as const;
    const flow: Flow = { table: 'dnat', priority: 200, match, steps: [ct] };
    return [flow, { ...flow, priority: 210, steps: [load(reg.endpointPort(port)), ct] }];
  };
}

it('yields the same entries for every endpoint as encoding its flows', () => {
  const templates = new FlowTemplates();
  const patterns = new Map(transports.map((transport) => [transport, translation(transport)]));
  fc.assert(
    fc.property(places, fc.constantFrom(...transports), fc.string(), (place, transport, name) => {
      const owner = ownerOf('endpoint', transport, name);
      const pattern = patterns.get(transport) ?? (() => []);
      const whole = encodeBridgeEntries(owner, { ...nothing, flows: pattern(place) });
      expect([...templates.entriesOf(owner, pattern, place)]).toEqual([...whole]);
    }),
  );
});

it.each<[string, (place: TransportAddress) => Flow]>([
  ['the address is added to', ({ ip }) => drop(Number(ip.value & 0xffffn))],
  ['the port is shifted', ({ port }) => drop((port << 1) & 0xffff)],
  ['one address has another flow', ({ ip }) => (ip.text.startsWith('160') ? drop(1) : { ...drop(1), priority: 3 })],
])('refuses a pattern where %s', (_, flow) => {
  const ip = ipFromValue('ipv4', 1n);
  expect(() => new FlowTemplates().entriesOf(ownerOf('node'), (place) => [flow(place)], { ip, port: 80 })).toThrow(/differ by more/);
});

function drop(value: number): Flow {
  return { table: 'dnat', priority: 1, match: { regs: [reg.endpointIpv4(value + 3)] }, steps: [] };
}
