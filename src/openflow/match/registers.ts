import type { ByteWriter } from '../../base/bytes/bytes.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { OPENFLOW_15, type Version } from '../protocol.ts';
import type { Field } from './fields.ts';
import { type AnyValue, isMasked, type Masked } from './oxm.ts';

/**
 * Registers as OpenFlow 1.5 carries them: in pairs, each pair one 64-bit packet register (`xreg0` is `reg0` above `reg1`), in whichever
 * form they were given; one by one for OpenFlow 1.3. Filled and cleared for each match, to avoid allocation.
 */
export class RegisterFile {
  readonly #values = new Uint32Array(16);
  readonly #masks = new Uint32Array(16);
  /** One bit per pair. */
  #touched = 0;

  add(field: Field, given: AnyValue | Masked<AnyValue>): void {
    if (typeof given === 'number') this.#addNumber(field, given, 0xffff_ffff);
    else if (typeof given === 'bigint') this.#addWide(field, given, field.fullBigint);
    else if (!isMasked(given)) throw notARegister(field, given);
    else if (typeof given.value === 'number' && typeof given.mask === 'number') this.#addNumber(field, given.value, given.mask);
    else if (typeof given.value === 'bigint' && typeof given.mask === 'bigint') this.#addWide(field, given.value, given.mask);
    else throw notARegister(field, given.value);
  }

  flush(w: ByteWriter, version: Version): void {
    for (let pair = 0; this.#touched >>> pair !== 0; pair++) {
      if (((this.#touched >>> pair) & 1) === 0) continue;
      if (version === OPENFLOW_15) this.#writePair(w, pair);
      else {
        this.#writeWord(w, 2 * pair);
        this.#writeWord(w, 2 * pair + 1);
      }
    }
    this.clear();
  }

  clear(): void {
    if (this.#touched === 0) return;
    for (let word = 0; this.#touched >>> (word >>> 1) !== 0; word++) this.#values[word] = this.#masks[word] = 0;
    this.#touched = 0;
  }

  #writePair(w: ByteWriter, pair: number): void {
    const highMask = this.#masks[2 * pair] ?? 0;
    const lowMask = this.#masks[2 * pair + 1] ?? 0;
    if (highMask === 0 && lowMask === 0) return;
    const exact = highMask === 0xffff_ffff && lowMask === 0xffff_ffff;
    w.u32((exact ? 0x8001_0008 : 0x8001_0110) + pair * 0x200)
      .u32(this.#values[2 * pair] ?? 0)
      .u32(this.#values[2 * pair + 1] ?? 0);
    if (!exact) w.u32(highMask).u32(lowMask);
  }

  #writeWord(w: ByteWriter, word: number): void {
    const mask = this.#masks[word] ?? 0;
    if (mask === 0) return;
    const exact = mask === 0xffff_ffff;
    w.u32((exact ? 0x0001_0004 : 0x0001_0108) + word * 0x200).u32(this.#values[word] ?? 0);
    if (!exact) w.u32(mask);
  }

  #addNumber(field: Field, value: number, mask: number): void {
    if (field.bytes !== 4) throw notARegister(field, value);
    this.#set(field, field.firstWord, value, mask);
  }

  #addWide(field: Field, value: bigint, mask: bigint): void {
    if (value < 0n || value > field.fullBigint || mask < 0n || mask > field.fullBigint)
      throw new SeineError('INVARIANT', `${field.name}: ${value}/${mask} does not fit in ${field.bits} bits`);
    const words = field.bytes / 4;
    wordsOf(wideValue, value, words);
    wordsOf(wideMask, mask, words);
    for (let word = 0; word < words; word++)
      this.#set(field, field.firstWord + word, wideValue.getUint32(4 * word), wideMask.getUint32(4 * word));
  }

  #set(field: Field, word: number, value: number, mask: number): void {
    const before = this.#masks[word] ?? 0;
    if (value >>> 0 !== value || mask >>> 0 !== mask) {
      throw new SeineError('INVARIANT', `${field.name}: ${value}/${mask} does not fit in 32 bits`);
    }
    if ((before & mask) !== 0) throw new SeineError('INVARIANT', `${field.name} matches bits that another register field matches`);
    this.#masks[word] = before | mask;
    this.#values[word] = (this.#values[word] ?? 0) | (value & mask);
    this.#touched |= 1 << (word >>> 1);
  }
}

const wideValue = new DataView(new ArrayBuffer(16));
const wideMask = new DataView(new ArrayBuffer(16));

/** Splits 64 or 128 bits into words without intermediate bigints. */
function wordsOf(into: DataView, value: bigint, words: number): void {
  if (words === 4) into.setBigUint64(0, value >> 64n);
  into.setBigUint64(4 * words - 8, value); // takes the low 64 bits
}

function notARegister(field: Field, value: AnyValue): SeineError {
  return new SeineError('INVARIANT', `${field.name}: ${String(value)} is not a value or mask of a register of ${field.bits} bits`);
}
