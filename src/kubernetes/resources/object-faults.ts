import type * as z from 'zod';
import { formatPath } from '../client/resource.ts';

/** Path of a field, such as `['spec', 'ingress', 0]`. */
export type FieldPath = readonly (string | number)[];

/** Reads a part of an object. @returns undefined if it is invalid; then the list has its fields and values */
export function readField<T>(schema: z.ZodType<T>, raw: unknown, path: FieldPath, faults: FaultList): T | undefined {
  const parsed = schema.safeParse(raw);
  if (parsed.success) return parsed.data;
  for (const issue of parsed.error.issues)
    faults.add(`${formatPath([...path, ...issue.path])}: ${issue.message} (${quoted(valueAt(raw, issue.path))})`);
  return undefined;
}

/** Returns a member of a value that is not read yet. */
export function valueAt(raw: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (value, part) => (typeof value === 'object' && value !== null && Object.hasOwn(value, part) ? Reflect.get(value, part) : undefined),
    raw,
  );
}

/** Returns a value as text, cut to a length that fits into an event. */
export function quoted(value: unknown): string {
  const text = JSON.stringify(value) ?? 'absent';
  return text.length > QUOTED_MAX ? `${text.slice(0, QUOTED_MAX)}…` : text;
}

const QUOTED_MAX = 100;
const FAULTS_MAX = 5;

/** List of the first few faults: they are stored with the object, and reported in an event. */
export class FaultList {
  readonly #texts: string[] = [];
  #more = 0;

  add(text: string): void {
    if (this.#texts.length < FAULTS_MAX) this.#texts.push(text);
    else this.#more++;
  }

  /** Number of faults, including those that are not listed. */
  get count(): number {
    return this.#texts.length + this.#more;
  }

  get texts(): readonly string[] {
    return this.#more === 0 ? this.#texts : [...this.#texts, `and ${this.#more} more`];
  }
}
