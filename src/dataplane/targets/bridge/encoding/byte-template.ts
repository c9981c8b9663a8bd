import { SeineError } from '../../../../base/errors/seine-error.ts';
import { addressBits } from '../../../../base/net/ip.ts';
import type { TransportAddress } from '../../../pipeline/flow.ts';

/** First variable byte of each of the three probes. No byte of an encoded entry varies by these differences for another reason. */
type ProbeBases = readonly [number, number, number];
const probeBases: ProbeBases = [0x10, 0x40, 0xa0];
/** The same for up to 26 variable bytes, all below 64: for entries that contain only the last six bits of some bytes. */
export const lowProbeBases: ProbeBases = [0x01, 0x0e, 0x25];

/** Marks a byte that is the same in all entries. */
const fixed = -1;

/** Encoded string with variable bytes. Their positions are found by encoding three probes that differ in each of them. */
export class ByteTemplate {
  readonly bytes: Buffer;
  /** Index of the variable byte at each position. */
  readonly #which: Int8Array;
  /** Offset and index of each variable byte, alternating. */
  readonly #patches: readonly number[];

  private constructor(bytes: Buffer, which: Int8Array) {
    this.bytes = bytes;
    this.#which = which;
    this.#patches = [...which.entries()].flatMap(([offset, given]) => (given === fixed ? [] : [offset, given]));
  }

  /** @param texts encodings of the three probes @throws SeineError `INVARIANT` if they differ by more than the variable bytes */
  static of([first, second, third]: readonly string[], given: number, bases = probeBases): ByteTemplate {
    if (first === undefined || second?.length !== first.length || third?.length !== first.length) throw misfit('their lengths differ');
    const which = new Int8Array(first.length).fill(fixed);
    for (let at = 0; at < first.length; at++) {
      const [a, b, c] = [first.charCodeAt(at), second.charCodeAt(at), third.charCodeAt(at)];
      if (a === b && b === c) continue;
      which[at] = a - bases[0];
      if (a < bases[0] || a - bases[0] >= given || b - a !== bases[1] - bases[0] || c - a !== bases[2] - bases[0])
        throw misfit(`byte ${at} is not one of those that may differ`);
    }
    return new ByteTemplate(Buffer.from(first, 'latin1'), which);
  }

  /** Indexes of the variable bytes in the order in which they appear. */
  get given(): readonly number[] {
    return this.#patches.filter((_, at) => at % 2 === 1);
  }

  fill(given: Uint8Array): string {
    return this.filled(given).toString('latin1');
  }

  /** Returns the template with these bytes filled in; valid until the next call. */
  filled(given: Uint8Array): Buffer {
    for (let at = 0; at < this.#patches.length; at += 2) this.bytes[this.#patches[at] ?? 0] = given[this.#patches[at + 1] ?? 0] ?? 0;
    return this.bytes;
  }

  /** Reverse of `fill`. @param from offset of the first byte to read @returns false if the string does not match the template */
  read(text: string, given: Uint8Array, from = 0): boolean {
    if (text.length !== this.bytes.length) return false;
    for (let at = from; at < text.length; at++) {
      const [code, which] = [text.charCodeAt(at), this.#which[at] ?? fixed];
      if (which !== fixed) given[which] = code;
      else if (code !== this.bytes[at]) return false;
    }
    return true;
  }
}

/** Encodes the three probes. @param given number of variable bytes @param encode its results must not differ in anything else */
export function probes<T>(given: number, encode: (bytes: Uint8Array) => T, bases = probeBases): readonly T[] {
  return bases.map((base) => encode(Uint8Array.from({ length: given }, (_, at) => base + at)));
}

function misfit(why: string): SeineError {
  return new SeineError('INVARIANT', `flows of one pattern differ by more than their endpoint: ${why}`);
}

/** Writes the address and port with which the variable bytes of a pattern begin. @returns the offset after them */
export function writePlace(view: DataView, { ip: { family, value }, port }: TransportAddress): number {
  if (family === 'ipv4') view.setUint32(0, Number(value));
  else {
    view.setBigUint64(0, value >> 64n);
    view.setBigUint64(8, BigInt.asUintN(64, value));
  }
  const at = addressBits(family) / 8;
  view.setUint16(at, port);
  return at + 2;
}
