import { createReadStream } from 'node:fs';
import { type FileHandle, mkdir, open, rename, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { LoopTurns } from '../../../base/async/loop-turns.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import type { Held } from './replica.ts';
import {
  headLine,
  objectLine,
  readReplica,
  SectionWriter,
  type StoredExtent,
  type StoredKind,
  type StoredReplica,
} from './replica-lines.ts';

interface ReplicaFileOptions {
  readonly path: string;
  readonly of: StoredKind;
  readonly turns: LoopTurns;
  /** What changed is appended until it comes to this much, and to as much as a whole file; then the file is written anew. */
  readonly minAppendedBytes?: number;
}

/** What is to be stored. Objects may change while it is. */
interface ReplicaSave<T> {
  readonly objects: ReadonlyMap<string, Held<T>>;
  /** Keys of objects that were added, changed or removed since the last save. */
  readonly changed: ReadonlySet<string>;
  /** Asked at the end, when it is not older than any object that was written. */
  readonly version: () => string;
}

const MIN_APPENDED_BYTES = 1024 * 1024;
const WRITE_BYTES = 64 * 1024;
const READ_BYTES = 256 * 1024;

/** A file whose every octet was written or read by this process, and that can be gone on with. */
interface OpenReplica {
  readonly handle: FileHandle;
  readonly inode: number;
  readonly sections: SectionWriter;
  readonly wholeBytes: number;
  appendedBytes: number;
}

/**
 * A replica on disk. What changes is appended, so that little change costs little; so much is appended as a whole file has, then it is
 * written anew. All in all at most about twice the bytes are written that have changed, and the file has twice the bytes it needs.
 *
 * A crash at any moment leaves what was stored before, or with it: a section that is not whole does not count, and a new file has its
 * name only once it is on disk.
 */
export class ReplicaFile<T> {
  readonly #options: ReplicaFileOptions;
  #open: OpenReplica | undefined;
  /** Of a file that was read and is not yet open. */
  #loaded: StoredExtent | undefined;

  constructor(options: ReplicaFileOptions) {
    this.#options = options;
  }

  /**
   * Reads what an earlier process stored. A file that is whole is gone on with by the next save.
   *
   * @returns `undefined` if there is nothing, or something of another kind, revision or layout
   * @throws SeineError `INVALID_INPUT` if it is damaged, `UNAVAILABLE` if it cannot be read; either way there is nothing to restore
   */
  async load(): Promise<StoredReplica<T> | undefined> {
    const { path, of, turns } = this.#options;
    try {
      const stored = await readReplica<T>(createReadStream(path, { highWaterMark: READ_BYTES }), of, turns);
      this.#loaded = stored?.extent;
      return stored;
    } catch (thrown) {
      if (isMissing(thrown)) return undefined;
      throw storageError(thrown, path, 'stored replica cannot be read');
    }
  }

  /**
   * The first time the whole is written, unless a whole file was loaded.
   *
   * @returns how many bytes were written
   * @throws SeineError `UNAVAILABLE`, e.g. when the disk is full; what was stored before is still there then, and the whole is next
   */
  async save(what: ReplicaSave<T>): Promise<number> {
    const { path } = this.#options;
    try {
      const open = await this.#appendable();
      return open ? await this.#append(open, what) : await this.#replace(what);
    } catch (thrown) {
      await this.close();
      throw storageError(thrown, path, 'replica cannot be stored');
    }
  }

  /** The next save writes the whole. */
  async close(): Promise<void> {
    const open = this.#open;
    this.#open = undefined;
    this.#loaded = undefined;
    await open?.handle.close().catch(() => undefined); // all that counts was synced
  }

  /** Behind what a crash has cut off nothing may be appended: such a file is written anew. */
  async #reopen(): Promise<OpenReplica | undefined> {
    const loaded = this.#loaded;
    this.#loaded = undefined;
    const handle = loaded && (await open(this.#options.path, 'a', 0o600).catch(() => undefined)); // it is made anew, or cannot be
    if (!handle) return undefined;
    const { bytes, wholeBytes, sum } = loaded;
    const found = await handle.stat().catch(() => undefined); // not to be seen: it is made anew
    if (found?.size === bytes)
      return { handle, inode: found.ino, sections: new SectionWriter(sum), wholeBytes, appendedBytes: bytes - wholeBytes };
    await handle.close().catch(() => undefined); // nothing was written
    return undefined;
  }

  /** The file, if it is worth to be gone on with, and if it is still the one that has the name. */
  async #appendable(): Promise<OpenReplica | undefined> {
    const { path, minAppendedBytes = MIN_APPENDED_BYTES } = this.#options;
    const open = (this.#open ??= await this.#reopen());
    if (!open || open.appendedBytes >= Math.max(minAppendedBytes, open.wholeBytes)) return undefined;
    const found = await stat(path).catch(() => undefined); // not there, or not to be seen: it is made anew
    return found?.ino === open.inode ? open : undefined;
  }

  async #append(open: OpenReplica, { objects, changed, version }: ReplicaSave<T>): Promise<number> {
    const lines = open.sections.section(linesOf(changed, objects), version);
    const bytes = await writeLines(open.handle, lines, this.#options.turns);
    open.appendedBytes += bytes;
    return bytes;
  }

  async #replace({ objects, version }: ReplicaSave<T>): Promise<number> {
    const { path, of, turns } = this.#options;
    await this.close();
    const draft = `${path}.new`;
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    const handle = await open(draft, 'w', 0o600);
    try {
      const sections = new SectionWriter();
      const wholeBytes = await writeLines(handle, sections.section(wholeOf(of, objects), version), turns);
      await rename(draft, path);
      await syncFolder(dirname(path));
      this.#open = { handle, inode: (await handle.stat()).ino, sections, wholeBytes, appendedBytes: 0 };
      return wholeBytes;
    } catch (thrown) {
      await handle.close().catch(() => undefined); // the first error is the one to report
      await rm(draft, { force: true }).catch(() => undefined);
      throw thrown;
    }
  }
}

/** Without this, a crash of the machine may take the new name back, and what was appended since with it. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

function* wholeOf<T>(of: StoredKind, objects: ReadonlyMap<string, Held<T>>): Generator<string> {
  yield headLine(of);
  for (const [key, held] of objects) yield objectLine(key, held);
}

function* linesOf<T>(keys: Iterable<string>, objects: ReadonlyMap<string, Held<T>>): Generator<string> {
  for (const key of keys) yield objectLine(key, objects.get(key));
}

/** @returns how many bytes */
async function writeLines(file: FileHandle, lines: Iterable<string>, turns: LoopTurns): Promise<number> {
  let written = 0;
  let pending = '';
  const write = async (): Promise<void> => {
    const bytes = Buffer.from(pending);
    pending = '';
    await file.writeFile(bytes); // goes on where the last one ended
    written += bytes.length;
  };
  for (const line of lines) {
    pending += line;
    if (pending.length >= WRITE_BYTES) await write();
    if (turns.due) await turns.next();
  }
  await write();
  await file.datasync();
  return written;
}

function isMissing(thrown: unknown): boolean {
  return thrown instanceof Error && 'code' in thrown && thrown.code === 'ENOENT';
}

function storageError(thrown: unknown, path: string, doing: string): SeineError {
  const damaged = thrown instanceof SeineError && thrown.remedy !== 'crash';
  const why = thrown instanceof Error ? thrown.message : String(thrown);
  return new SeineError(damaged ? 'INVALID_INPUT' : 'UNAVAILABLE', `${doing}: ${why}`, { context: { path }, cause: thrown });
}
