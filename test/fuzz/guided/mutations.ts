import type { SeededRandom } from '../random.ts';

/** Longer inputs find little more than shorter ones, and take longer. */
export const inputBytesMax = 64 * 1024;

/** Values that formats use, and some that they do not. */
const words = [
  ...['{', '}', '[', ']', '"', '\\', ',', ':', '\n', '\0', '-', 'e', '.', '/', '%', '0', '1e999', '-0', 'null', 'true', '{}', '[]', '""'],
  ...['__proto__', 'constructor', 'toString', '\\u0000', '\\ud800', '\u{1F600}', '255.255.255.255', '::ffff:10.0.0.1', '0.0.0.0/0', '::/0'],
  ...['9007199254740993', '4294967296', '65536', '-1', '1.5'],
].map((word) => Buffer.from(word));

const numbers = [0, 1, 2, 4, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128, 255] as const;

type Mutation = (bytes: Buffer, random: SeededRandom, all: readonly Buffer[]) => Buffer;

const mutations: readonly Mutation[] = [
  (bytes, random) => bytes.subarray(0, at(bytes, random)),
  (bytes, random) => replaced(bytes, at(bytes, random), 1, Buffer.from([random.below(256)])),
  (bytes, random) => replaced(bytes, at(bytes, random), 1, Buffer.from([random.pick(numbers)])),
  (bytes, random) => flipped(bytes, random),
  (bytes, random) => replaced(bytes, at(bytes, random), 0, random.pick(words)),
  (bytes, random) => replaced(bytes, at(bytes, random), random.below(8), random.pick(words)),
  (bytes, random) => replaced(bytes, at(bytes, random), 1 + random.below(16), Buffer.alloc(0)),
  (bytes, random) => replaced(bytes, at(bytes, random), 2, pair(random)),
  (bytes, random) => replaced(bytes, at(bytes, random), 0, piece(bytes, random)),
  (bytes, random, all) => replaced(bytes, at(bytes, random), random.below(32), piece(random.pick(all), random)),
  (bytes, random) => repeated(bytes, random),
];

/** One to eight mutations, one after another. @param all inputs from which an input may get fragments */
export function mutated(bytes: Buffer, random: SeededRandom, all: readonly Buffer[]): Buffer {
  let changed = bytes;
  for (let left = 1 << random.below(4); left > 0; left -= 1) changed = random.pick(mutations)(changed, random, all);
  return changed.subarray(0, inputBytesMax);
}

function at(bytes: Buffer, random: SeededRandom): number {
  return random.below(bytes.length + 1);
}

function replaced(bytes: Buffer, from: number, removed: number, put: Uint8Array): Buffer {
  return Buffer.concat([bytes.subarray(0, from), put, bytes.subarray(from + removed)]);
}

function flipped(bytes: Buffer, random: SeededRandom): Buffer {
  if (bytes.length === 0) return bytes;
  const changed = Buffer.from(bytes);
  const where = random.below(bytes.length);
  changed[where] = (changed[where] ?? 0) ^ (1 << random.below(8));
  return changed;
}

/** A length or a type, as in most binary formats, of either byte order. */
function pair(random: SeededRandom): Buffer {
  const number = random.chance(0.5) ? random.pick(numbers) : random.below(0x1_0000);
  return Buffer.from(random.chance(0.5) ? [number >> 8, number & 255] : [number & 255, number >> 8]);
}

function piece(bytes: Buffer, random: SeededRandom): Buffer {
  const from = at(bytes, random);
  return bytes.subarray(from, from + 1 + random.below(64));
}

function repeated(bytes: Buffer, random: SeededRandom): Buffer {
  const part = piece(bytes, random);
  return replaced(bytes, at(bytes, random), 0, Buffer.concat(Array.from({ length: 1 + random.below(200) }, () => part)));
}
