import { closeSync, existsSync, mkdirSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { SeineError } from '../../../src/base/errors/seine-error.ts';
import type { ApiObject } from '../object/api-object.ts';

/** One change: `object` as it is now, or as it was when it was deleted. */
export interface ObjectChange {
  readonly storage: string;
  readonly revision: number;
  readonly object: ApiObject;
  readonly deleted: boolean;
}

export interface ObjectJournal {
  /**
   * Appends a change. It is written when this returns: a killed process loses nothing. It is not synced: a host that loses power may lose
   * it.
   */
  append(change: ObjectChange, objectJson: string): void;
  /** Replaces everything appended so far by `changes`, the live objects. */
  rewrite(revision: number, changes: Iterable<ObjectChange>): void;
  /** Bytes appended since the last rewrite, or since the journal was opened. */
  readonly grown: number;
  close(): void;
}

/** Journal of a server without persistence: tests and benches. */
export const noJournal: ObjectJournal = { append: () => {}, rewrite: () => {}, grown: 0, close: () => {} };

export interface OpenedJournal {
  readonly journal: ObjectJournal;
  /** Revision below which the history is incomplete (a rewrite kept only the live objects). */
  readonly floor: number;
  readonly changes: readonly ObjectChange[];
}

/**
 * Opens `dir/objects.log`, created if absent: JSON lines `{"floor":N}` first, then `[storage, revision, deleted, object]`. A last line cut
 * short by a kill is dropped.
 *
 * @throws SeineError `REFUSED` if any other line is malformed
 */
export function openJournal(dir: string): OpenedJournal {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const path = join(dir, 'objects.log');
  const { floor, changes, whole } = readJournal(path);
  const journal = new FileJournal(path);
  if (!whole) journal.rewrite(floor, changes);
  return { journal, floor, changes };
}

function readJournal(path: string): { floor: number; changes: ObjectChange[]; whole: boolean } {
  if (!existsSync(path)) return { floor: 0, changes: [], whole: false };
  const text = readFileSync(path, 'utf8');
  const lines = text.split('\n');
  const torn = lines.pop() !== '';
  const parsed = lines.map((line, index) => parseLine(line, index + 1));
  const [first, ...rest] = parsed;
  return {
    floor: first !== undefined && 'floor' in first ? first.floor : 0,
    changes: rest.filter((one) => 'object' in one),
    whole: !torn && first !== undefined,
  };
}

function parseLine(line: string, number: number): ObjectChange | { floor: number } {
  try {
    const value: unknown = JSON.parse(line);
    if (!Array.isArray(value)) return value as { floor: number };
    const [storage, revision, deleted, object] = value as [string, number, boolean, ApiObject];
    return { storage, revision, deleted, object };
  } catch (cause) {
    throw new SeineError('REFUSED', `objects.log line ${number} is damaged`, { cause });
  }
}

class FileJournal implements ObjectJournal {
  readonly #path: string;
  #fd: number;
  grown = 0;

  constructor(path: string) {
    this.#path = path;
    this.#fd = openSync(path, 'a', 0o600);
  }

  append({ storage, revision, deleted }: ObjectChange, objectJson: string): void {
    const line = `${JSON.stringify([storage, revision, deleted]).slice(0, -1)},${objectJson}]\n`;
    writeSync(this.#fd, line);
    this.grown += line.length;
  }

  rewrite(revision: number, changes: Iterable<ObjectChange>): void {
    const temporary = `${this.#path}.new`;
    const fd = openSync(temporary, 'w', 0o600);
    writeSync(fd, `${JSON.stringify({ floor: revision })}\n`);
    for (const { storage, revision: at, deleted, object } of changes) writeSync(fd, `${JSON.stringify([storage, at, deleted, object])}\n`);
    renameSync(temporary, this.#path);
    closeSync(this.#fd);
    this.#fd = fd;
    this.grown = 0;
  }

  close(): void {
    closeSync(this.#fd);
  }
}
