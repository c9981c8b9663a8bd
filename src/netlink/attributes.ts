import { SeineError } from '../errors/seine-error.ts';
import { littleEndian } from './sys.ts';

/*
 * struct nlattr (linux/netlink.h):  u16 length (with these 4 bytes) · u16 type · value · zeros up to a multiple of 4
 * All numbers in the machine's byte order, except where an attribute says otherwise.
 */

/** The two top bits of an attribute's type are flags (nested, network byte order). */
const TYPE_MASK = 0x3fff;

/** The attributes of one message or of one nested attribute. Values share the message's bytes: copy what you keep. */
export class Attributes {
  readonly #values = new Map<number, Uint8Array>();
  readonly #what: string;

  /** @throws SeineError `PROTOCOL` if a length runs past the end. Of several with one type the last counts, as in the kernel. */
  constructor(bytes: Uint8Array, what: string) {
    this.#what = what;
    for (const { type, value } of attributesIn(bytes, what)) this.#values.set(type, value);
  }

  get types(): number[] {
    return [...this.#values.keys()];
  }

  has(type: number): boolean {
    return this.#values.has(type);
  }

  bytes(type: number): Uint8Array | undefined {
    return this.#values.get(type);
  }

  u8(type: number): number | undefined {
    return this.#view(type, 1)?.getUint8(0);
  }

  u16(type: number): number | undefined {
    return this.#view(type, 2)?.getUint16(0, littleEndian);
  }

  u32(type: number): number | undefined {
    return this.#view(type, 4)?.getUint32(0, littleEndian);
  }

  i32(type: number): number | undefined {
    return this.#view(type, 4)?.getInt32(0, littleEndian);
  }

  /** A C string; the final NUL is optional. */
  text(type: number): string | undefined {
    const value = this.#values.get(type);
    if (value === undefined) return undefined;
    const end = value.indexOf(0);
    return Buffer.from(value.buffer, value.byteOffset, end < 0 ? value.length : end).toString('utf8');
  }

  nested(type: number): Attributes | undefined {
    const value = this.#values.get(type);
    return value && new Attributes(value, `${this.#what}, attribute ${type}`);
  }

  #view(type: number, size: number): DataView | undefined {
    const value = this.#values.get(type);
    if (value === undefined) return undefined;
    if (value.length < size) throw new SeineError('PROTOCOL', `${this.#what}: attribute ${type} has ${value.length} bytes, ${size} wanted`);
    return new DataView(value.buffer, value.byteOffset, value.length);
  }
}

/** In order, with repetitions (`RTA_MULTIPATH` and dumps of strings repeat one type). */
export function attributesIn(bytes: Uint8Array, what: string): { readonly type: number; readonly value: Uint8Array }[] {
  const found: { type: number; value: Uint8Array }[] = [];
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  for (let at = 0; at + 4 <= bytes.length; ) {
    const length = view.getUint16(at, littleEndian);
    if (length < 4 || at + length > bytes.length)
      throw new SeineError('PROTOCOL', `${what}: attribute at ${at} says ${length} bytes, ${bytes.length - at} left`);
    found.push({ type: view.getUint16(at + 2, littleEndian) & TYPE_MASK, value: bytes.subarray(at + 4, at + length) });
    at += aligned(length);
  }
  return found;
}

/** Attributes and messages begin at multiples of 4. */
export function aligned(length: number): number {
  return (length + 3) & ~3;
}
