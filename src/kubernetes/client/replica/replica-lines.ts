import { crc32 } from 'node:zlib';
import * as z from 'zod';
import type { LoopTurns } from '../../../base/async/loop-turns.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import { apiLimits, parseJson } from '../json/json-stream.ts';
import type { Held } from './replica.ts';

/*
 * The file of a replica: one JSON object per line, in sections whose last line shows that they are complete.
 *
 *     {format, kind, revision}
 *     {key, version, value}         for each object
 *     {end, version, crc}           lines since the last end; a version not older than any object; checksum of all bytes so far
 *     {key, version, value} …       objects that have changed
 *     {gone}                        keys of deleted objects
 *     {end, version, crc}
 *     …
 */

/** Incremented with changes of the file's layout. The content of objects has the resource's own revision. */
const FORMAT = 2;

/** Maximum length of a line: an object of the API with some additional bytes. */
const MAX_LINE_BYTES = 2 * apiLimits.maxValueBytes;

/** Content of a replica file, and its resource. */
export interface StoredKind {
  readonly kind: string;
  readonly revision: number;
}

export interface StoredReplica<T> {
  /** Version that is not older than any of the objects. */
  readonly version: string;
  readonly objects: ReadonlyMap<string, Held<T>>;
  readonly extent: StoredExtent;
}

/** Extent of the complete part of a file. */
export interface StoredExtent {
  /** Size of the first section. */
  readonly wholeBytes: number;
  /** Size of all complete sections. */
  readonly bytes: number;
  /** Checksum of all of them; the next section continues it. */
  readonly sum: number;
}

const headSchema = z.object({ format: z.int(), kind: z.string(), revision: z.int() });
const endSchema = z.object({ end: z.int().min(0), version: z.string(), crc: z.int() });

export function headLine({ kind, revision }: StoredKind): string {
  return JSON.stringify({ format: FORMAT, kind, revision });
}

/** @param held absent if the object was deleted */
export function objectLine<T>(key: string, held: Held<T> | undefined): string {
  return JSON.stringify(held ? { key, version: held.version, value: held.value } : { gone: key });
}

/** Writes the sections of one file, each after the one before. */
export class SectionWriter {
  #sum: number;

  /** @param sum checksum of the existing sections */
  constructor(sum = 0) {
    this.#sum = sum;
  }

  /** @param version called after the last line */
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

/** Continues the checksum over the end of a section, so that no section is mistaken for one of another file. */
function sumOfEnd({ end, version }: { readonly end: number; readonly version: string }, sum: number): number {
  return crc32(JSON.stringify([end, version]), sum);
}

/**
 * Reads a replica as far as its sections are complete: a part cut off by a crash, or damaged on disk, ends it.
 *
 * Values are not checked: only the agent can write the file (0600), and they were checked before they were written.
 *
 * @returns `undefined` if it is of another kind, revision or layout
 * @throws SeineError `INVALID_INPUT` if not even the first section is complete; and errors of reading
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
  /** Changes of the section that is being read. */
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

  /** @returns whether the following lines can be used */
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

/** Checks a line without a schema: there are tens of thousands of lines, and no error is reported for a single one. */
function storedChange<T>(line: unknown): { readonly key: string; readonly held?: Held<T> } {
  const { key, version, value, gone } = (typeof line === 'object' ? (line ?? {}) : {}) as Record<string, unknown>;
  if (typeof gone === 'string' && gone !== '') return { key: gone };
  if (typeof key !== 'string' || key === '' || typeof version !== 'string' || typeof value !== 'object' || value === null)
    throw new SeineError('INVALID_INPUT', 'a line that is not an object of a replica');
  return { key, held: { version, value: value as T } };
}
