import { addressBits, type Family, ipFromBytes } from '../../../../base/net/ip.ts';
import { cookieWords, type Owner } from '../../../pipeline/cookie.ts';
import type { Flow } from '../../../pipeline/flow.ts';
import { type LeadPattern, type LeadPlace, leadNumbers, type PatternFlow } from '../../../pipeline/flow-pattern.ts';
import { ByteTemplate, probes, writePlace } from './byte-template.ts';

interface LeadTemplate {
  readonly key: ByteTemplate;
  readonly value: ByteTemplate;
}

const NUMBER_OCTETS = 4;
/** Behind the address: two octets of the port, and the numbers. */
const REST_OCTETS = 2 + leadNumbers * NUMBER_OCTETS;

/** Flows of patterns as entries: each pattern is encoded once, and written over. */
export class LeadTemplates {
  /** For as long as somebody keeps the pattern. */
  readonly #known = new WeakMap<LeadPattern, Map<Family, LeadTemplate>>();
  readonly #given = new Uint8Array(addressBits('ipv6') / 8 + REST_OCTETS);
  readonly #view = new DataView(this.#given.buffer);
  readonly #encode: (flow: Flow) => readonly [key: string, value: string];

  /** @param encode a flow, of whichever owner: the cookie, with which the value begins, is written anew for each */
  constructor(encode: (flow: Flow) => readonly [key: string, value: string]) {
    this.#encode = encode;
  }

  /**
   * What encoding the flow gives.
   *
   * @throws SeineError `INVARIANT` if the flows of the pattern differ by more than what is given
   */
  entryOf(owner: Owner, { from: { pattern, place } }: PatternFlow): readonly [key: string, value: string] {
    this.#load(place);
    const { key, value } = this.#templateOf(pattern, place.ip.family);
    const { high, low } = cookieWords(owner);
    value.octets.writeUInt32BE(high, 0);
    value.octets.writeUInt32BE(low, 4);
    return [key.fill(this.#given), value.fill(this.#given)];
  }

  #load(place: LeadPlace): void {
    const at = writePlace(this.#view, place);
    this.#view.setUint32(at, place.numbers[0]);
    this.#view.setUint32(at + NUMBER_OCTETS, place.numbers[1]);
  }

  #templateOf(pattern: LeadPattern, family: Family): LeadTemplate {
    const byFamily = this.#known.get(pattern) ?? new Map<Family, LeadTemplate>();
    this.#known.set(pattern, byFamily);
    const template = byFamily.get(family) ?? this.#make(pattern, family);
    byFamily.set(family, template);
    return template;
  }

  #make(pattern: LeadPattern, family: Family): LeadTemplate {
    const addressOctets = addressBits(family) / 8;
    const given = addressOctets + REST_OCTETS;
    const encoded = probes(given, (octets) => {
      const rest = new DataView(octets.buffer, addressOctets);
      const ip = ipFromBytes(octets.subarray(0, addressOctets));
      return this.#encode(pattern({ ip, port: rest.getUint16(0), numbers: [rest.getUint32(2), rest.getUint32(2 + NUMBER_OCTETS)] }));
    });
    const [key, value] = ([0, 1] as const).map((of) =>
      ByteTemplate.of(
        encoded.map((entry) => entry[of]),
        given,
      ),
    ) as [ByteTemplate, ByteTemplate];
    return { key, value };
  }
}
