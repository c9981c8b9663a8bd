import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type Family, ipFromValue } from '../../../base/net/ip.ts';
import { macFromBytes } from '../../../base/net/mac.ts';
import { compileSubject, type SubjectIntent, SubjectPatterns } from '../../compile/compile-entry.ts';
import { podPattern } from '../../compile/compile-pod.ts';
import { nothing } from '../../desired/host-entries.ts';
import { ownerOf } from '../../pipeline/cookie.ts';
import { reg } from '../../pipeline/fields.ts';
import { type Flow, load } from '../../pipeline/flow.ts';
import type { PodPlace } from '../../pipeline/flow-pattern.ts';
import { encodeBridgeEntries } from './bridge-entry.ts';
import { PodTemplates } from './pod-template.ts';

const bits = { ipv4: 32n, ipv6: 128n } as const;
const families = fc.constantFrom<readonly Family[]>(['ipv4'], ['ipv6'], ['ipv4', 'ipv6'], ['ipv6', 'ipv4']);
const places: fc.Arbitrary<PodPlace> = fc.record({
  ofPort: fc.integer({ min: 1, max: 0xffff_feff }),
  mac: fc.uint8Array({ minLength: 6, maxLength: 6 }).map(macFromBytes),
  addresses: families.chain((each) =>
    fc.tuple(...each.map((family) => fc.bigInt(0n, 2n ** bits[family] - 1n).map((value) => ipFromValue(family, value)))),
  ),
});

it('yields the same entries for every pod as encoding its flows', () => {
  const templates = new PodTemplates();
  fc.assert(
    fc.property(places, fc.string(), (place, name) => {
      const owner = ownerOf('pod', 'shop', name);
      const whole = encodeBridgeEntries(owner, { ...nothing, flows: podPattern(place) });
      expect([...templates.entriesOf(owner, podPattern, place)]).toEqual([...whole]);
    }),
  );
});

it('yields the same entries for every pod of a class as encoding its flows, with any MAC', () => {
  const templates = new PodTemplates();
  const patterns = new SubjectPatterns();
  const classOf = fc.constantFrom<SubjectIntent['ingress']>(undefined, 'closed', 2, 3, 2047);
  fc.assert(
    fc.property(places, classOf, classOf, (place, ingress, egress) => {
      const owner = ownerOf('subject', 'shop', 'web');
      const classes = { ...(ingress === undefined ? {} : { ingress }), ...(egress === undefined ? {} : { egress }) };
      const whole = encodeBridgeEntries(owner, { ...nothing, flows: compileSubject({ ...place, ...classes }) });
      expect([...templates.entriesOf(owner, patterns.of({ ...place, ...classes }).pattern, place)]).toEqual([...whole]);
    }),
    { numRuns: 400 },
  );
});

it('caches no more patterns of classes than a node may have pods', () => {
  const patterns = new SubjectPatterns();
  const of = (classes: Pick<SubjectIntent, 'ingress' | 'egress'>) => patterns.of({ ofPort: 7, addresses: [], ...classes }).pattern;
  const first = of({ ingress: 2 });
  expect(of({ ingress: 2 })).toBe(first);
  for (let egress = 2; egress < 130; egress++) of({ egress });
  expect(of({ ingress: 2 })).not.toBe(first);
});

it.each<[string, (place: PodPlace) => Flow]>([
  ['the port is shifted', ({ ofPort }) => drop((ofPort << 1) >>> 0)],
  ['another bit of the MAC is turned', ({ mac }) => drop(Number.parseInt(mac.slice(0, 2), 16) ^ 0x20)],
])('refuses a pattern where %s', (_, flow) => {
  const place: PodPlace = { ofPort: 7, mac: macFromBytes(new Uint8Array(6)), addresses: [ipFromValue('ipv4', 1n)] };
  const templates = new PodTemplates();
  const pattern = (each: PodPlace): readonly Flow[] => [flow(each)];
  templates.entriesOf(ownerOf('pod', 'a'), pattern, place); // the first one is encoded directly
  expect(() => templates.entriesOf(ownerOf('pod', 'b'), pattern, place)).toThrow(/differ by more/);
});

function drop(value: number): Flow {
  return { table: 'classify', priority: 1, match: {}, steps: [load(reg.outPort(value))] };
}
