import { crc32 } from 'node:zlib';
import * as z from 'zod';
import type { LoopTurns } from '../../../base/async/loop-turns.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import { apiLimits, parseJson } from '../json/json-stream.ts';
import type { Held } from './replica.ts';

/*
 * The file of a replica: JSON objects, one a line, in sections that each end with a line which a cut-off one does not have.
 *
 *     {format, kind, revision}
 *     {key, version, value}         for each object
 *     {end, version, crc}           lines since the last end; a version not older than any object; sum of all bytes so far
 *     {key, version, value} …       objects that have changed
 *     {gone}                        keys of objects that are gone
 *     {end, version, crc}
 *     …
 */

/** Raised with the layout of the file. What is inside the objects has the resource's own revision. */
const FORMAT = 2;

/** No line is longer than an object of the API with a few words more. */
const MAX_LINE_BYTES = 2 * apiLimits.maxValueBytes;

/** What a replica file holds, and of which resource. */
export interface StoredKind {
  readonly kind: string;
  readonly revision: number;
}

export interface StoredReplica<T> {
  /** Not older than any of the objects. */
  readonly version: string;
  readonly objects: ReadonlyMap<string, Held<T>>;
  readonly extent: StoredExtent;
}

/** How far a file is whole. */
export interface StoredExtent {
  /** Of the first section. */
  readonly wholeBytes: number;
  /** Of all whole sections. */
  readonly bytes: number;
  /** Of all of them; the next section goes on with it. */
  readonly sum: number;
}

const headSchema = z.object({ format: z.int(), kind: z.string(), revision: z.int() });
const endSchema = z.object({ end: z.int().min(0), version: z.string(), crc: z.int() });

export function headLine({ kind, revision }: StoredKind): string {
  return JSON.stringify({ format: FORMAT, kind, revision });
}

/** @param held absent if the object is gone */
export function objectLine<T>(key: string, held: Held<T> | undefined): string {
  return JSON.stringify(held ? { key, version: held.version, value: held.value } : { gone: key });
}

/** Puts the sections of one file together, each after the one before. */
export class SectionWriter {
  #sum: number;

  /** @param sum of the sections that are there */
  constructor(sum = 0) {
    this.#sum = sum;
  }

  /** @param version asked after the last line */
  *section(lines: Iterable<string>, version: () => string): Generator<string> {
    let count = 0;
    for (const line of lines) {
      const text = `${line}\n`;
      this.#sum = crc32(text, this.#sum);
      count++;
      yield text;
    }
    const end = { end: count, version: version() };
    this.#sum = sumOfEnd(end, this.#sum);
    yield `${JSON.stringify({ ...end, crc: this.#sum })}\n`;
  }
}

/** The sum goes on over the end of a section, so that none is taken for the next one of another file. */
function sumOfEnd({ end, version }: { readonly end: number; readonly version: string }, sum: number): number {
  return crc32(JSON.stringify([end, version]), sum);
}

/**
 * Reads a replica as far as its sections are whole: what a crash has cut off, or a disk has harmed, ends it before.
 *
 * The values are taken as they are: the file is ours alone (0600), and they were checked before they were written.
 *
 * @returns `undefined` if it is of another kind, revision or layout
 * @throws SeineError `INVALID_INPUT` if not even the first section is whole; and whatever reading throws
 */
export async function readReplica<T>(
  chunks: AsyncIterable<Uint8Array>,
  of: StoredKind,
  turns: LoopTurns,
): Promise<StoredReplica<T> | undefined> {
  const reader = new ReplicaReader<T>(of);
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of chunks) {
    rest = Buffer.concat([rest, chunk]);
    let from = 0;
    for (let newline = rest.indexOf(NEWLINE); newline >= 0; newline = rest.indexOf(NEWLINE, from)) {
      if (!reader.take(rest.subarray(from, newline + 1))) return reader.result();
      from = newline + 1;
      if (turns.due) await turns.next();
    }
    rest = rest.subarray(from);
    if (rest.length > MAX_LINE_BYTES) break;
  }
  return reader.result();
}

const NEWLINE = '\n'.charCodeAt(0);

class ReplicaReader<T> {
  readonly #of: StoredKind;
  readonly #objects = new Map<string, Held<T>>();
  /** Of the section that is being read. */
  #changes: { readonly key: string; readonly held?: Held<T> }[] = [];
  #lines = 0;
  #sum = 0;
  #bytes = 0;
  #extent: StoredExtent | undefined;
  #head: z.output<typeof headSchema> | undefined;
  #version: string | undefined;

  constructor(of: StoredKind) {
    this.#of = of;
  }

  /** @returns whether what follows can be of use */
  take(line: Uint8Array): boolean {
    this.#bytes += line.length;
    try {
      const value = parseJson(line);
      if (isEnd(value)) return this.#end(endSchema.parse(value));
      if (this.#head) this.#changes.push(storedChange<T>(value));
      else this.#head = headSchema.parse(value);
      this.#sum = crc32(line, this.#sum);
      this.#lines++;
      return this.#isOurs();
    } catch {
      return false;
    }
  }

  result(): StoredReplica<T> | undefined {
    if (this.#head && !this.#isOurs()) return undefined;
    if (this.#version === undefined || !this.#extent) throw new SeineError('INVALID_INPUT', 'it is cut off or damaged');
    return { version: this.#version, objects: this.#objects, extent: this.#extent };
  }

  #end({ end, version, crc }: z.output<typeof endSchema>): boolean {
    const sum = sumOfEnd({ end, version }, this.#sum);
    if (!this.#head || end !== this.#lines || crc !== sum) return false;
    for (const { key, held } of this.#changes) {
      if (held) this.#objects.set(key, held);
      else this.#objects.delete(key);
    }
    this.#version = version;
    this.#changes = [];
    this.#lines = 0;
    this.#sum = sum;
    this.#extent = { wholeBytes: this.#extent?.wholeBytes ?? this.#bytes, bytes: this.#bytes, sum };
    return true;
  }

  #isOurs(): boolean {
    const { format, kind, revision } = this.#head ?? {};
    return format === FORMAT && kind === this.#of.kind && revision === this.#of.revision;
  }
}

function isEnd(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'end' in value;
}

/** Plainly checked: there are tens of thousands of lines, and no one is told what is wrong with one. */
function storedChange<T>(line: unknown): { readonly key: string; readonly held?: Held<T> } {
  const { key, version, value, gone } = (typeof line === 'object' ? (line ?? {}) : {}) as Record<string, unknown>;
  if (typeof gone === 'string' && gone !== '') return { key: gone };
  if (typeof key !== 'string' || key === '' || typeof version !== 'string' || typeof value !== 'object' || value === null)
    throw new SeineError('INVALID_INPUT', 'a line that is no object of a replica');
  return { key, held: { version, value: value as T } };
}
