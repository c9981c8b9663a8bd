import { addressBits, type Family, ipFromBytes } from '../../../../base/net/ip.ts';
import { cookieWords, type Owner } from '../../../pipeline/cookie.ts';
import type { Flow } from '../../../pipeline/flow.ts';
import { type EntryPattern, type EntryPlace, entryNumbers, type PatternFlow } from '../../../pipeline/flow-pattern.ts';
import { ByteTemplate, lowProbeBases, probes, writePlace } from './byte-template.ts';

interface EntryTemplateOf {
  readonly key: ByteTemplate;
  readonly value: ByteTemplate;
}

const NUMBER_BYTES = 4;
/** Number of bytes after the address: two of the port, and the numbers. */
const REST_BYTES = 2 + entryNumbers * NUMBER_BYTES;

/** Encoder of flows from patterns: a pattern is encoded once, and the bytes of each flow are written over that. */
export class EntryTemplates {
  /** Templates by pattern and family, kept as long as the pattern is in use. */
  readonly #known = new WeakMap<EntryPattern, Map<Family, EntryTemplateOf>>();
  readonly #given = new Uint8Array(addressBits('ipv6') / 8 + REST_BYTES);
  readonly #view = new DataView(this.#given.buffer);
  readonly #encode: (flow: Flow) => readonly [key: string, value: string];

  /** @param encode encodes a flow with any owner: the cookie at the beginning of the value is overwritten for each flow */
  constructor(encode: (flow: Flow) => readonly [key: string, value: string]) {
    this.#encode = encode;
  }

  /**
   * Returns the same entry as `encode` for the flow.
   *
   * @throws SeineError `INVARIANT` if the flows of the pattern differ by more than the place
   */
  entryOf(owner: Owner, { from: { pattern, place } }: PatternFlow): readonly [key: string, value: string] {
    this.#load(place);
    const { key, value } = this.#templateOf(pattern, place.ip.family);
    const { high, low } = cookieWords(owner);
    value.bytes.writeUInt32BE(high, 0);
    value.bytes.writeUInt32BE(low, 4);
    return [key.fill(this.#given), value.fill(this.#given)];
  }

  #load(place: EntryPlace): void {
    const at = writePlace(this.#view, place);
    this.#view.setUint32(at, place.numbers[0]);
    this.#view.setUint32(at + NUMBER_BYTES, place.numbers[1]);
  }

  #templateOf(pattern: EntryPattern, family: Family): EntryTemplateOf {
    const byFamily = this.#known.get(pattern) ?? new Map<Family, EntryTemplateOf>();
    this.#known.set(pattern, byFamily);
    const template = byFamily.get(family) ?? this.#make(pattern, family);
    byFamily.set(family, template);
    return template;
  }

  #make(pattern: EntryPattern, family: Family): EntryTemplateOf {
    const addressBytes = addressBits(family) / 8;
    const given = addressBytes + REST_BYTES;
    const encode = (bytes: Uint8Array) => {
      const rest = new DataView(bytes.buffer, addressBytes);
      const ip = ipFromBytes(bytes.subarray(0, addressBytes));
      return this.#encode(pattern({ ip, port: rest.getUint16(0), numbers: [rest.getUint32(2), rest.getUint32(2 + NUMBER_BYTES)] }));
    };
    const encoded = probes(given, encode, lowProbeBases);
    const [key, value] = ([0, 1] as const).map((of) =>
      ByteTemplate.of(
        encoded.map((entry) => entry[of]),
        given,
        lowProbeBases,
      ),
    ) as [ByteTemplate, ByteTemplate];
    return { key, value };
  }
}
