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
  /** Minimum size of appended changes; when they exceed it and the size of a whole file, the file is rewritten. */
  readonly minAppendedBytes?: number;
}

/** Content to be stored. Objects may change meanwhile. */
interface ReplicaSave<T> {
  readonly objects: ReadonlyMap<string, Held<T>>;
  /** Keys of objects that were added, changed or removed since the last save. */
  readonly changed: ReadonlySet<string>;
  /** Called at the end, when the version is not older than any object written. */
  readonly version: () => string;
}

const MIN_APPENDED_BYTES = 1024 * 1024;
const WRITE_BYTES = 64 * 1024;
const READ_BYTES = 256 * 1024;

/** File of which every byte was written or read by this process, and that can be appended to. */
interface OpenReplica {
  readonly handle: FileHandle;
  readonly inode: number;
  readonly sections: SectionWriter;
  readonly wholeBytes: number;
  appendedBytes: number;
}

/**
 * Replica on disk. Changes are appended, so that few changes cost little; when the appended part is as large as a whole file, the file is
 * rewritten. At most about twice the changed bytes are written, and the file has at most twice the bytes that it needs.
 *
 * A crash at any moment leaves the previous content, or with it the new one: an incomplete section does not count, and a new file gets its
 * name only once it is on disk.
 */
export class ReplicaFile<T> {
  readonly #options: ReplicaFileOptions;
  #open: OpenReplica | undefined;
  /** Extent of a file that was read and is not yet open. */
  #loaded: StoredExtent | undefined;

  constructor(options: ReplicaFileOptions) {
    this.#options = options;
  }

  /**
   * Reads the content stored by an earlier process. The next save appends to a complete file.
   *
   * @returns `undefined` if there is nothing, or content of another kind, revision or layout
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
   * Writes changes; the first time everything, unless a complete file was loaded.
   *
   * @returns number of bytes written
   * @throws SeineError `UNAVAILABLE`, e.g. when the disk is full; the previous content is still present then, and the next save writes
   * everything
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

  /** Closes the file: the next save writes everything. */
  async close(): Promise<void> {
    const open = this.#open;
    this.#open = undefined;
    this.#loaded = undefined;
    await open?.handle.close().catch(() => undefined); // all that counts was synced
  }

  /** Opens the loaded file to append. After a section that a crash has cut off nothing may be appended: such a file is rewritten. */
  async #reopen(): Promise<OpenReplica | undefined> {
    const loaded = this.#loaded;
    this.#loaded = undefined;
    const handle = loaded && (await open(this.#options.path, 'a', 0o600).catch(() => undefined)); // it is rewritten, or cannot be
    if (!handle) return undefined;
    const { bytes, wholeBytes, sum } = loaded;
    const found = await handle.stat().catch(() => undefined); // cannot be read: it is rewritten
    if (found?.size === bytes)
      return { handle, inode: found.ino, sections: new SectionWriter(sum), wholeBytes, appendedBytes: bytes - wholeBytes };
    await handle.close().catch(() => undefined); // nothing was written
    return undefined;
  }

  /** Returns the file if appending to it is worthwhile, and if it still has its name. */
  async #appendable(): Promise<OpenReplica | undefined> {
    const { path, minAppendedBytes = MIN_APPENDED_BYTES } = this.#options;
    const open = (this.#open ??= await this.#reopen());
    if (!open || open.appendedBytes >= Math.max(minAppendedBytes, open.wholeBytes)) return undefined;
    const found = await stat(path).catch(() => undefined); // missing, or cannot be read: it is rewritten
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

/** Syncs the folder. Without this, a crash of the host may undo the rename, and lose what was appended since. */
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

/** @returns number of bytes */
async function writeLines(file: FileHandle, lines: Iterable<string>, turns: LoopTurns): Promise<number> {
  let written = 0;
  let pending = '';
  const write = async (): Promise<void> => {
    const bytes = Buffer.from(pending);
    pending = '';
    await file.writeFile(bytes); // continues where the last one ended
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
