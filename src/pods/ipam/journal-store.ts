import { constants, fstatSync, statSync, writeSync } from 'node:fs';
import { type FileHandle, mkdir, open, readFile, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { SeineError } from '../../base/errors/seine-error.ts';
import { journalFileName } from '../../cni/served-boot.ts';
import { tryLock } from '../../netlink/sys.ts';
import { decodeJournal } from './journal-records.ts';

/** Where the journal's bytes live. Durable means: there after a crash of the machine. */
export interface JournalStore {
  /** Everything there is; empty before the first `replace`. */
  load(): Promise<Uint8Array>;
  /**
   * At once, and there after a crash of this process, but until `sync` perhaps not of the machine: then there may be zeros in their place.
   * After it throws some, all or none of the bytes may be there, and only `replace` may follow.
   */
  append(bytes: Uint8Array): void;
  /** All that was appended before the call is durable once this resolves. After a rejection only `replace` may follow. */
  sync(): Promise<void>;
  /** The whole content at once, atomically: after a crash there is the old or the new. Durable once resolved. */
  replace(bytes: Uint8Array): Promise<void>;
  /**
   * Whether what was written is where the next agent will look, and no other agent's. If it is not, it was taken away, and
   * only `replace` brings it back.
   */
  isInPlace(): boolean;
  close(): Promise<void>;
}

/** The journal of an agent that keeps its state there. */
export function journalIn(stateDir: string): string {
  return join(stateDir, journalFileName);
}

/** A node's journal is some hundred kilobytes; this is a guard against reading something else. */
const bytesMax = 64 * 1024 * 1024;

/** So often the lock file may be taken away in the moment between opening and locking it. */
const lockAttempts = 8;

/** A file that is open, and which it is: another may have its name meanwhile. */
interface OpenFile {
  readonly handle: FileHandle;
  readonly identity: string;
}

/**
 * A file 0600 in a folder 0700, with a lock file beside it: two agents on one journal would lend the same addresses. The lock is
 * the kernel's and ends with the process.
 *
 * The folder may be removed, or the lock alone. A lock on a file without a name keeps no agent out, so it counts for nothing: the next
 * write takes the one that has the name now, or is refused because another agent was there first. Who looks after a write that both are
 * still in place knows that no agent can have read the journal without it.
 */
export class FileJournalStore implements JournalStore {
  readonly #path: string;
  #file: OpenFile | undefined;
  #lock: OpenFile | undefined;

  constructor(path: string) {
    this.#path = path;
  }

  /** @throws SeineError `REFUSED` if another process has the journal */
  async load(): Promise<Uint8Array> {
    try {
      await this.#takeLock();
    } catch (thrown) {
      if (thrown instanceof SeineError) throw thrown;
      // A disk that cannot be written: what is leased is read all the same, and the first write tries for the lock again.
    }
    return await readJournal(this.#path);
  }

  /** Such a write takes microseconds and is not worth a trip to the thread pool. */
  append(bytes: Uint8Array): void {
    if (writeSync(this.#begun.handle.fd, bytes) < bytes.length)
      throw new SeineError('UNAVAILABLE', `${this.#path} took a part of a record`);
  }

  async sync(): Promise<void> {
    await this.#begun.handle.datasync();
  }

  async replace(bytes: Uint8Array): Promise<void> {
    await this.#makeFolder(); // it may have been removed
    await this.#takeLock();
    const temporary = `${this.#path}.new`;
    await rm(temporary, { force: true });
    const file = await open(temporary, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_APPEND, 0o600);
    try {
      await writeAll(file, bytes);
      await file.sync();
      await rename(temporary, this.#path);
      await syncFolder(dirname(this.#path));
      if (!this.#holdsLock()) throw new SeineError('UNAVAILABLE', `the lock of ${this.#path} was taken away while it was written`);
    } catch (thrown) {
      await file.close();
      throw thrown;
    }
    await this.#closeFile();
    this.#file = { handle: file, identity: identityOf(fstatSync(file.fd)) };
  }

  isInPlace(): boolean {
    try {
      return this.#file?.identity === identityAt(this.#path) && this.#holdsLock();
    } catch {
      return false; // the disk does not say; the next write will
    }
  }

  async close(): Promise<void> {
    await this.#closeFile();
    await this.#releaseLock();
  }

  async #closeFile(): Promise<void> {
    const file = this.#file;
    this.#file = undefined;
    await file?.handle.close();
  }

  get #begun(): OpenFile {
    if (!this.#file) throw new SeineError('INVARIANT', 'append to a journal that was never begun');
    return this.#file;
  }

  async #makeFolder(): Promise<void> {
    await mkdir(dirname(this.#path), { recursive: true, mode: 0o700 });
  }

  /** @throws SeineError `REFUSED` if another process has the journal, `UNAVAILABLE` */
  async #takeLock(): Promise<void> {
    if (this.#holdsLock()) return;
    await this.#releaseLock();
    for (let attempt = 0; attempt < lockAttempts; attempt++) {
      await this.#makeFolder();
      const handle = await open(this.#lockPath, constants.O_RDWR | constants.O_CREAT, 0o600);
      if (!tryLock(handle.fd)) {
        await handle.close();
        throw new SeineError('REFUSED', `another agent has ${this.#path}`);
      }
      this.#lock = { handle, identity: identityOf(fstatSync(handle.fd)) };
      if (this.#holdsLock()) return;
      await this.#releaseLock(); // it was removed meanwhile, and another agent may have made and locked the next
    }
    throw new SeineError('UNAVAILABLE', `${this.#lockPath} is removed whenever it is made`);
  }

  #holdsLock(): boolean {
    return this.#lock !== undefined && this.#lock.identity === identityAt(this.#lockPath);
  }

  async #releaseLock(): Promise<void> {
    const lock = this.#lock;
    this.#lock = undefined;
    await lock?.handle.close();
  }

  get #lockPath(): string {
    return `${this.#path}.lock`;
  }
}

/** Undefined if there is none. @throws what the system says of a disk that cannot be read */
function identityAt(path: string): string | undefined {
  const present = statSync(path, { throwIfNoEntry: false });
  return present && identityOf(present);
}

/** Everything that is in the file; empty if there is none. @throws SeineError `INVALID_INPUT` for a file that can be no journal */
async function readJournal(path: string): Promise<Uint8Array> {
  try {
    const { size } = await stat(path);
    if (size > bytesMax) throw new SeineError('INVALID_INPUT', `${path} has ${size} bytes and is no IPAM journal`);
    return await readFile(path);
  } catch (thrown) {
    if (thrown instanceof Error && 'code' in thrown && thrown.code === 'ENOENT') return new Uint8Array();
    throw thrown;
  }
}

/**
 * Looks whether this agent can read the journal, and takes no lock: another agent may still have it. For before anything is changed.
 *
 * @throws SeineError `INVALID_INPUT` for a journal of a newer format
 */
export async function assertReadableJournal(path: string): Promise<void> {
  decodeJournal(Buffer.from(await readJournal(path)).toString('utf8'));
}

function identityOf({ dev, ino }: { readonly dev: number; readonly ino: number }): string {
  return `${dev}:${ino}`;
}

async function writeAll(file: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length; ) at += (await file.write(bytes, at)).bytesWritten;
}

/** Makes a rename durable (fsync(2): the entry of a file in its folder is synced by the folder's own fsync). */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
