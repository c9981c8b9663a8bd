import { isDeepStrictEqual } from 'node:util';

/** A JSON object whose fields are not checked yet. */
export interface JsonRecord {
  [field: string]: unknown;
}

export function isObject(value: unknown): value is JsonRecord {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A copy that shares nothing with `value`. JSON values only; a third of the time of structuredClone. */
export function cloneJson<T>(value: T): T {
  return cloned(value) as T;
}

function cloned(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(cloned);
  if (!isObject(value)) return value;
  const copy: JsonRecord = {};
  for (const field of Object.keys(value)) setField(copy, field, cloned(value[field]));
  return copy;
}

/** Sets a field by definition: plain assignment to `__proto__` would change the object's prototype instead. */
export function setField(object: JsonRecord, field: string, value: unknown): void {
  if (field === '__proto__') Object.defineProperty(object, field, { value, writable: true, enumerable: true, configurable: true });
  else object[field] = value;
}

export function equalJson(a: unknown, b: unknown): boolean {
  return a === b || isDeepStrictEqual(a, b);
}

/** A field of a value; undefined if the value is not an object. */
export function field(value: unknown, name: string): unknown {
  return isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;
}

/** Walks `names` down through objects; undefined as soon as one is missing. */
export function at(value: unknown, ...names: readonly string[]): unknown {
  let here = value;
  for (const name of names) here = field(here, name);
  return here;
}

/** The object in `parent[name]`, created empty if absent. */
export function ensureObject(parent: JsonRecord, name: string): JsonRecord {
  const there = field(parent, name);
  if (isObject(there)) return there;
  const made: JsonRecord = {};
  parent[name] = made;
  return made;
}

/** The array in `value[name]`; empty when absent. */
export function arrayAt(value: unknown, ...names: readonly string[]): readonly unknown[] {
  const there = at(value, ...names);
  return Array.isArray(there) ? there : [];
}

export function textAt(value: unknown, ...names: readonly string[]): string {
  const there = at(value, ...names);
  return typeof there === 'string' || typeof there === 'number' || typeof there === 'boolean' ? String(there) : '';
}

/** A copy without the fields whose value is undefined. */
export function defined<T extends object>(value: T): T {
  return Object.fromEntries(Object.entries(value).filter(([, there]) => there !== undefined)) as T;
}
