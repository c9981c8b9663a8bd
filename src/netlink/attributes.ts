import { SeineError } from '../base/errors/seine-error.ts';
import { littleEndian } from './sys.ts';

/*
 * struct nlattr (linux/netlink.h):  u16 length (with these 4 bytes) · u16 type · value · zeros up to a multiple of 4
 * All numbers in host byte order, except where an attribute says otherwise.
 */

/** The two top bits of an attribute's type are flags (nested, network byte order). */
const TYPE_MASK = 0x3fff;
const NLA_HDRLEN = 4;

/** Attributes of one message or of one nested attribute. Values share the message's bytes: copy a value to keep it. */
export class Attributes {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  /** Offsets of the values, by type: an interface has about fifty, of which few are read. */
  readonly #places = new Map<number, number>();
  readonly #what: string;

  /** @throws SeineError `PROTOCOL` if a length exceeds the message. If a type occurs several times, the last counts, as in the kernel. */
  constructor(bytes: Uint8Array, what: string) {
    this.#bytes = bytes;
    this.#view = viewOf(bytes);
    this.#what = what;
    for (let at = 0; at + NLA_HDRLEN <= bytes.length; at = endOf(this.#view, at, what))
      this.#places.set(typeAt(this.#view, at), at + NLA_HDRLEN);
  }

  get types(): number[] {
    return [...this.#places.keys()];
  }

  has(type: number): boolean {
    return this.#places.has(type);
  }

  bytes(type: number): Uint8Array | undefined {
    const at = this.#places.get(type);
    return at === undefined ? undefined : this.#bytes.subarray(at, at + this.#lengthAt(at));
  }

  u8(type: number): number | undefined {
    const at = this.#numberAt(type, 1);
    return at === undefined ? undefined : this.#view.getUint8(at);
  }

  u16(type: number): number | undefined {
    const at = this.#numberAt(type, 2);
    return at === undefined ? undefined : this.#view.getUint16(at, littleEndian);
  }

  u32(type: number): number | undefined {
    const at = this.#numberAt(type, 4);
    return at === undefined ? undefined : this.#view.getUint32(at, littleEndian);
  }

  i32(type: number): number | undefined {
    const at = this.#numberAt(type, 4);
    return at === undefined ? undefined : this.#view.getInt32(at, littleEndian);
  }

  /** A C string; the final NUL is optional. */
  text(type: number): string | undefined {
    const value = this.bytes(type);
    if (value === undefined) return undefined;
    const end = value.indexOf(0);
    return Buffer.from(value.buffer, value.byteOffset, end < 0 ? value.length : end).toString('utf8');
  }

  nested(type: number): Attributes | undefined {
    const value = this.bytes(type);
    return value && new Attributes(value, `${this.#what}, attribute ${type}`);
  }

  #numberAt(type: number, size: number): number | undefined {
    const at = this.#places.get(type);
    if (at === undefined) return undefined;
    const length = this.#lengthAt(at);
    if (length < size) throw new SeineError('PROTOCOL', `${this.#what}: attribute ${type} has ${length} bytes, ${size} expected`);
    return at;
  }

  #lengthAt(valueAt: number): number {
    return this.#view.getUint16(valueAt - NLA_HDRLEN, littleEndian) - NLA_HDRLEN;
  }
}

/** Returns the attributes in order, with repetitions (`RTA_MULTIPATH` and dumps of strings repeat one type). */
export function attributesIn(bytes: Uint8Array, what: string): { readonly type: number; readonly value: Uint8Array }[] {
  const found: { type: number; value: Uint8Array }[] = [];
  const view = viewOf(bytes);
  for (let at = 0; at + NLA_HDRLEN <= bytes.length; ) {
    const next = endOf(view, at, what);
    const length = view.getUint16(at, littleEndian);
    found.push({ type: typeAt(view, at), value: bytes.subarray(at + NLA_HDRLEN, at + length) });
    at = next;
  }
  return found;
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
}

function typeAt(view: DataView, at: number): number {
  return view.getUint16(at + 2, littleEndian) & TYPE_MASK;
}

/** Returns the offset of the next attribute. @throws SeineError `PROTOCOL` if the one at `at` exceeds the message */
function endOf(view: DataView, at: number, what: string): number {
  const length = view.getUint16(at, littleEndian);
  if (length < NLA_HDRLEN || at + length > view.byteLength)
    throw new SeineError('PROTOCOL', `${what}: attribute at ${at} declares ${length} bytes, ${view.byteLength - at} left`);
  return at + aligned(length);
}

/** Attributes and messages begin at multiples of 4. */
export function aligned(length: number): number {
  return (length + 3) & ~3;
}
