import { SeineError } from '../../../base/errors/seine-error.ts';
import { addressBits, type Family, hostCidr, type Ip, ipFromBytes, ipv4Text, isIp, parseIp } from '../../../base/net/ip.ts';
import { nothing } from '../../desired/host-entries.ts';
import { cookieWordsAfter, type Owner, ownerOf } from '../../pipeline/cookie.ts';
import type { NumberedRows } from '../../pipeline/flow-pattern.ts';
import type { Packing, Place } from '../../reconcile/packed-entries.ts';
import { type BridgeKey, type BridgeValue, encodeBridgeEntries } from './bridge-entry.ts';
import { ByteTemplate, probes } from './encoding/byte-template.ts';

const NUMBER_BYTES = 4;
const COOKIE_BYTES = 8;

/** Owner of the probe rows: the cookie is overwritten for each owner. */
const prober = ownerOf('node');

/** Template for the rows of one family: bytes of the address, then those of the number. */
class RowShape {
  readonly key: ByteTemplate;
  readonly value: ByteTemplate;
  readonly given: Buffer;
  readonly addressBytes: number;

  constructor(family: Family, { flowOf }: NumberedRows) {
    this.addressBytes = addressBits(family) / 8;
    this.given = Buffer.alloc(this.addressBytes + NUMBER_BYTES);
    const encoded = probes(this.given.length, (bytes) => {
      const number = new DataView(bytes.buffer).getInt32(this.addressBytes);
      const [entry] = encodeBridgeEntries(prober, {
        ...nothing,
        flows: [flowOf(ipFromBytes(bytes.subarray(0, this.addressBytes)), number >>> 0)],
      });
      return entry ?? (['', ''] as const);
    });
    [this.key, this.value] = ([0, 1] as const).map((of) =>
      ByteTemplate.of(
        encoded.map((entry) => entry[of]),
        this.given.length,
      ),
    ) as [ByteTemplate, ByteTemplate];
    const all = [...this.given.keys()];
    if (`${this.key.given}` !== `${all.slice(0, this.addressBytes)}` || `${this.value.given}` !== `${all.slice(this.addressBytes)}`)
      throw new SeineError('INVARIANT', 'a numbered row has its address in the key, its number in the value, and both once');
  }
}

/** Rows stored as an address and a number each: owner, key and value are encoded on demand. */
export class RowPacking implements Packing<BridgeKey, BridgeValue> {
  readonly rows: NumberedRows;
  readonly #ipv4: RowShape;
  readonly #ipv6: RowShape;
  readonly #cookieOf: ReturnType<typeof cookieWordsAfter>;

  /** @throws SeineError `INVARIANT` if the rows do not have the form of `NumberedRows` */
  constructor(rows: NumberedRows) {
    this.rows = rows;
    this.#ipv4 = new RowShape('ipv4', rows);
    this.#ipv6 = new RowShape('ipv6', rows);
    this.#cookieOf = cookieWordsAfter(rows.owners);
  }

  placeOf({ family, value }: Ip): Place {
    if (family === 'ipv4') return Number(value) | 0;
    const { given } = this.#ipv6;
    given.writeBigUInt64BE(value >> 64n, 0);
    given.writeBigUInt64BE(BigInt.asUintN(64, value), 8);
    return given.toString('latin1', 0, 16);
  }

  placeOfKey(key: BridgeKey): Place | undefined {
    if (this.#ipv4.key.read(key, this.#ipv4.given)) return this.#ipv4.given.readInt32BE(0);
    return this.#ipv6.key.read(key, this.#ipv6.given) ? this.#ipv6.given.toString('latin1', 0, 16) : undefined;
  }

  placeOfOwner(owner: string): Place | undefined {
    if (!owner.startsWith(this.rows.owners)) return undefined;
    const text = owner.slice(this.rows.owners.length, owner.lastIndexOf('/'));
    if (!isIp(text)) return undefined;
    const place = this.placeOf(parseIp(text));
    return this.ownerOf(place) === owner ? place : undefined;
  }

  ownerOf(place: Place): Owner {
    return `${this.rows.owners}${cidrAt(place)}` as Owner;
  }

  keyOf(place: Place): BridgeKey {
    const shape = this.#load(place);
    return shape.key.fill(shape.given) as BridgeKey;
  }

  valueOf(place: Place, number: number): BridgeValue {
    const shape = this.#load(place);
    const { high, low } = this.#cookieOf(cidrAt(place));
    shape.value.bytes.writeUInt32BE(high, 0);
    shape.value.bytes.writeUInt32BE(low, 4);
    shape.given.writeInt32BE(number, shape.addressBytes);
    return shape.value.fill(shape.given) as BridgeValue;
  }

  numberIn(place: Place, value: BridgeValue): number | undefined {
    const { value: template, given, addressBytes } = this.#load(place);
    if (!template.read(value, given, COOKIE_BYTES)) return undefined;
    const { high, low } = this.#cookieOf(cidrAt(place));
    return wordAt(value, 0) === high >>> 0 && wordAt(value, 4) === low ? given.readInt32BE(addressBytes) : undefined;
  }

  #load(place: Place): RowShape {
    if (typeof place === 'number') {
      this.#ipv4.given.writeInt32BE(place, 0);
      return this.#ipv4;
    }
    this.#ipv6.given.write(place, 0, 'latin1');
    return this.#ipv6;
  }
}

function cidrAt(place: Place): string {
  return typeof place === 'number' ? `${ipv4Text(place)}/32` : hostCidr(ipFromBytes(Buffer.from(place, 'latin1'))).text;
}

function wordAt(text: string, at: number): number {
  return ((text.charCodeAt(at) << 24) | (text.charCodeAt(at + 1) << 16) | (text.charCodeAt(at + 2) << 8) | text.charCodeAt(at + 3)) >>> 0;
}
