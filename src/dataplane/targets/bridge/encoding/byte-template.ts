import { SeineError } from '../../../../base/errors/seine-error.ts';
import { addressBits } from '../../../../base/net/ip.ts';
import type { TransportAddress } from '../../../pipeline/flow.ts';

/** Octets at which the probes of a template begin: no octet of an entry differs by as much between two of them. */
const probeBases = [0x10, 0x40, 0xa0] as const;

/** Nothing of what is given goes there. */
const fixed = -1;

/** An encoded text of which some octets are given: where they go is found by encoding three probes that differ in each of them. */
export class ByteTemplate {
  readonly octets: Buffer;
  /** For each octet which of the given ones it is. */
  readonly #which: Int8Array;
  /** Offset and given octet, in turn. */
  readonly #patches: readonly number[];

  private constructor(octets: Buffer, which: Int8Array) {
    this.octets = octets;
    this.#which = which;
    this.#patches = [...which.entries()].flatMap(([offset, given]) => (given === fixed ? [] : [offset, given]));
  }

  /** @param texts of the three probes @throws SeineError `INVARIANT` if they differ by more than what is given */
  static of([first, second, third]: readonly string[], given: number): ByteTemplate {
    if (first === undefined || second?.length !== first.length || third?.length !== first.length) throw misfit('their lengths differ');
    const which = new Int8Array(first.length).fill(fixed);
    for (let at = 0; at < first.length; at++) {
      const [a, b, c] = [first.charCodeAt(at), second.charCodeAt(at), third.charCodeAt(at)];
      if (a === b && b === c) continue;
      which[at] = a - probeBases[0];
      if (
        a < probeBases[0] ||
        a - probeBases[0] >= given ||
        b - a !== probeBases[1] - probeBases[0] ||
        c - a !== probeBases[2] - probeBases[0]
      )
        throw misfit(`octet ${at} is not one of those that may differ`);
    }
    return new ByteTemplate(Buffer.from(first, 'latin1'), which);
  }

  /** What is given, in the order in which it appears. */
  get given(): readonly number[] {
    return this.#patches.filter((_, at) => at % 2 === 1);
  }

  fill(given: Uint8Array): string {
    return this.filled(given).toString('latin1');
  }

  /** Valid until it is filled again. */
  filled(given: Uint8Array): Buffer {
    for (let at = 0; at < this.#patches.length; at += 2) this.octets[this.#patches[at] ?? 0] = given[this.#patches[at + 1] ?? 0] ?? 0;
    return this.octets;
  }

  /** The reverse. @param from this octet on @returns false if it is no such text */
  read(text: string, given: Uint8Array, from = 0): boolean {
    if (text.length !== this.octets.length) return false;
    for (let at = from; at < text.length; at++) {
      const [code, which] = [text.charCodeAt(at), this.#which[at] ?? fixed];
      if (which !== fixed) given[which] = code;
      else if (code !== this.octets[at]) return false;
    }
    return true;
  }
}

/** @param given so many octets @param encode what differs in nothing else */
export function probes<T>(given: number, encode: (octets: Uint8Array) => T): readonly T[] {
  return probeBases.map((base) => encode(Uint8Array.from({ length: given }, (_, at) => base + at)));
}

function misfit(why: string): SeineError {
  return new SeineError('INVARIANT', `flows of one pattern differ by more than their endpoint: ${why}`);
}

/** Writes an address and a port, as a probe of a pattern begins with them. @returns what follows them */
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
