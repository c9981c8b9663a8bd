import type { Random } from '../random.ts';

/** Maximum size of one object in etcd (bytes); an API server stores no larger one. */
export const objectBytesMost = 1_500_000;
/** Share of that for lists. */
const listBytesMost = 1_200_000;

/** Number of members of a repeated field: one, a few, hundreds, or the maximum that an API server stores. */
export function sizeOf(random: Random, most: number): number {
  const kind = random.below(20);
  if (kind < 8) return Math.min(most, 1);
  if (kind < 14) return Math.min(most, 2 + random.below(7));
  if (kind < 18) return Math.min(most, 50 + random.below(450));
  return most;
}

/**
 * Sizes of two repeated fields of one object: both as `sizeOf` draws them, or both the maximum.
 *
 * @param bytes size of a member of each, as JSON
 */
export function pairOfSizes(random: Random, bytes: readonly [number, number], most: readonly [number, number]): readonly [number, number] {
  const fits = (count: number, at: 0 | 1): number => Math.max(1, Math.min(count, most[at], Math.floor(listBytesMost / 2 / bytes[at])));
  if (random.chance(0.85)) return [fits(sizeOf(random, most[0]), 0), fits(sizeOf(random, most[1]), 1)];
  return [fits(most[0], 0), fits(most[1], 1)];
}

export function listOf<T>(count: number, each: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => each(index));
}

/** Names of inherited properties, for code that looks a name up in an object without an own-property check. */
export const awkwardNames = [
  'constructor',
  'prototype',
  'hasownproperty',
  'valueof',
  'tostring',
  'proto',
  'null',
  'undefined',
  'nan',
] as const;
/** Values of fields in which an API server requires only text: names of zones and nodes, types of addresses, values of annotations. */
export const awkwardTexts = [
  '__proto__',
  'constructor',
  'hasOwnProperty',
  '',
  '\n',
  '{"a":',
  '$(reboot)',
  '\u001b[2J',
  'x'.repeat(10_000),
] as const;
/** Values of labels, which may have capitals. */
export const awkwardValues = [
  'constructor',
  'hasOwnProperty',
  'toString',
  'valueOf',
  'isPrototypeOf',
  'a__proto__b',
  'true',
  '0',
  '',
] as const;
