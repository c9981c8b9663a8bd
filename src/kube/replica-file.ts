import { createReadStream } from 'node:fs';
import { mkdir, open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import * as z from 'zod';
import type { LoopTurns } from '../async/loop-turns.ts';
import { SeineError } from '../errors/seine-error.ts';
import { apiLimits, readJson } from './json-stream.ts';
import type { Held } from './replica.ts';

/** Raised with the layout of the file. What is inside the objects has the resource's own revision. */
const FORMAT = 1;

const headSchema = z.object({ format: z.literal(FORMAT), kind: z.string(), revision: z.int() });
const tailSchema = z.object({ end: z.int().min(0), version: z.string() });

/** Plainly checked: there are tens of thousands of lines, and nobody is told what is wrong with one. */
function storedObject(line: unknown): { readonly key: string; readonly version: string; readonly value: object } {
  const { key, version, value } = (typeof line === 'object' ? (line ?? {}) : {}) as Record<string, unknown>;
  if (typeof key !== 'string' || key === '' || typeof version !== 'string' || typeof value !== 'object' || value === null)
    throw new SeineError('INVALID_INPUT', 'a line that is no object of a replica');
  return { key, version, value };
}

/** What a replica file holds, and of which resource. */
export interface StoredKind {
  readonly kind: string;
  readonly revision: number;
}

export interface StoredReplica<T> {
  /** Not older than any of the objects. */
  readonly version: string;
  readonly objects: ReadonlyMap<string, Held<T>>;
}

/**
 * Reads a replica that an earlier process stored.
 *
 * Layout: JSON objects, one a line: `{format, kind, revision}`, then `{key, version, value}` for each object, then
 * `{end: number of objects, version}`, which a cut-off file does not have.
 *
 * The values are taken as they are: the file is ours alone (0600), and they were checked before they were written.
 *
 * @returns `undefined` if there is none, or one of another kind or revision
 * @throws SeineError `INVALID_INPUT` if it is damaged, `UNAVAILABLE` if it cannot be read; either way there is nothing to restore
 */
export async function loadReplica<T>(path: string, of: StoredKind, turns: LoopTurns): Promise<StoredReplica<T> | undefined> {
  const objects = new Map<string, Held<T>>();
  let head: z.output<typeof headSchema> | undefined;
  let tail: z.output<typeof tailSchema> | undefined;
  const onValue = (line: unknown) => {
    if (!head) head = headSchema.parse(line);
    else if (tail) throw new SeineError('INVALID_INPUT', 'something after the end');
    else if (typeof line === 'object' && line !== null && 'end' in line) tail = tailSchema.parse(line);
    else {
      const { key, version, value } = storedObject(line);
      objects.set(key, { version, value: value as T });
    }
  };
  const onUnreadable = () => {
    throw new SeineError('INVALID_INPUT', 'an object that is no JSON');
  };
  try {
    await readJson('values', createReadStream(path), { limits: apiLimits, turns, onValue, onUnreadable });
  } catch (thrown) {
    if (isMissing(thrown)) return undefined;
    if (head && (head.kind !== of.kind || head.revision !== of.revision)) return undefined;
    throw storageError(thrown, path, 'stored replica cannot be read');
  }
  if (head?.kind !== of.kind || head.revision !== of.revision) return undefined;
  if (tail?.end !== objects.size) throw new SeineError('INVALID_INPUT', 'stored replica is cut off', { context: { path } });
  return { version: tail.version, objects };
}

/**
 * Replaces the file by what is held now, or leaves it as it was. Objects may change meanwhile.
 *
 * @param version asked at the end, when it is not older than any object that was written
 * @throws SeineError `UNAVAILABLE`, e.g. when the disk is full; the old file is still there then
 */
export async function saveReplica<T>(
  path: string,
  of: StoredKind,
  objects: ReadonlyMap<string, Held<T>>,
  { version, turns }: { readonly version: () => string; readonly turns: LoopTurns },
): Promise<void> {
  const draft = `${path}.new`;
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await writeDraft(draft, linesOf(of, objects, version), turns);
    await rename(draft, path);
  } catch (thrown) {
    await rm(draft, { force: true }).catch(() => undefined); // the first error is the one to report
    throw storageError(thrown, path, 'replica cannot be stored');
  }
}

const WRITE_BYTES = 64 * 1024;

async function writeDraft(draft: string, lines: Iterable<string>, turns: LoopTurns): Promise<void> {
  const file = await open(draft, 'w', 0o600);
  try {
    let pending = '';
    for (const line of lines) {
      pending += `${line}\n`;
      if (pending.length >= WRITE_BYTES) {
        await file.writeFile(pending); // goes on where the last one ended
        pending = '';
      }
      if (turns.due) await turns.next();
    }
    await file.writeFile(pending);
    await file.sync();
  } finally {
    await file.close();
  }
}

function* linesOf<T>({ kind, revision }: StoredKind, objects: ReadonlyMap<string, Held<T>>, version: () => string): Generator<string> {
  yield JSON.stringify({ format: FORMAT, kind, revision });
  let count = 0;
  for (const [key, held] of objects) {
    yield JSON.stringify({ key, version: held.version, value: held.value });
    count++;
  }
  yield JSON.stringify({ end: count, version: version() });
}

function isMissing(thrown: unknown): boolean {
  return thrown instanceof Error && 'code' in thrown && thrown.code === 'ENOENT';
}

function storageError(thrown: unknown, path: string, doing: string): SeineError {
  const damaged = thrown instanceof z.ZodError || (thrown instanceof SeineError && thrown.remedy !== 'crash');
  const why = thrown instanceof Error ? thrown.message : String(thrown);
  return new SeineError(damaged ? 'INVALID_INPUT' : 'UNAVAILABLE', `${doing}: ${why}`, { context: { path }, cause: thrown });
}
