import { constants, fstatSync, statSync, writeSync } from 'node:fs';
import { type FileHandle, mkdir, open, readFile, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { SeineError } from '../../base/errors/seine-error.ts';
import { journalFileName } from '../../cni/served-boot.ts';
import { tryLock } from '../../netlink/sys.ts';
import { decodeJournal } from './journal-records.ts';

/** Storage of the journal. Durable means that data survive a crash of the host. */
export interface JournalStore {
  /** Returns the whole content; empty before the first `replace`. */
  load(): Promise<Uint8Array>;
  /**
   * Appends at once. The bytes survive a crash of this process, but a crash of the host only after `sync`: before, there may be zeros in
   * their place. After an error, any part of the bytes may be stored, and only `replace` may follow.
   */
  append(bytes: Uint8Array): void;
  /** Makes all bytes appended before the call durable. After a rejection only `replace` may follow. */
  sync(): Promise<void>;
  /** Replaces the whole content atomically: after a crash there is the old or the new content. Durable once resolved. */
  replace(bytes: Uint8Array): Promise<void>;
  /**
   * Reports whether the data are where the next agent will read them, and no other agent has them. If not, the file was removed or
   * replaced, and only `replace` helps.
   */
  isInPlace(): boolean;
  close(): Promise<void>;
}

/** Returns the path of the journal in a state directory. */
export function journalIn(stateDir: string): string {
  return join(stateDir, journalFileName);
}

/** Maximum size of a journal (bytes). A real one has a few hundred kilobytes; this guards against reading another file. */
const bytesMax = 64 * 1024 * 1024;

/** Number of attempts if the lock file is removed between opening and locking it. */
const lockAttempts = 8;

/** Open file and its identity, because its name may be that of another file meanwhile. */
interface OpenFile {
  readonly handle: FileHandle;
  readonly identity: string;
}

/**
 * File with mode 0600 in a directory with mode 0700, with a lock file next to it: two agents with one journal would allocate the same
 * addresses. The lock is the kernel's and ends with the process.
 *
 * The directory may be removed, or the lock file alone. A lock on a file without a name keeps no agent out, so it does not count: the next
 * write locks the file that has the name now, or is refused because another agent has locked it. A writer that checks after a write that
 * both files are still in place knows that no other agent has read the journal without that write.
 */
export class FileJournalStore implements JournalStore {
  readonly #path: string;
  #file: OpenFile | undefined;
  #lock: OpenFile | undefined;

  constructor(path: string) {
    this.#path = path;
  }

  /** Locks and reads the journal. @throws SeineError `REFUSED` if another process has it */
  async load(): Promise<Uint8Array> {
    try {
      await this.#takeLock();
    } catch (thrown) {
      if (thrown instanceof SeineError) throw thrown;
      // The disk cannot be written: the leases are read anyway, and the first write tries to get the lock again.
    }
    return await readJournal(this.#path);
  }

  /** Appends synchronously: such a write takes microseconds and is not worth the thread pool. */
  append(bytes: Uint8Array): void {
    if (writeSync(this.#begun.handle.fd, bytes) < bytes.length)
      throw new SeineError('UNAVAILABLE', `${this.#path} accepted only part of a record`);
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
      if (!this.#holdsLock()) throw new SeineError('UNAVAILABLE', `the lock of ${this.#path} was lost during a write`);
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
      return false; // unknown because of a disk error; the next write will report it
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

  /** Takes the lock. @throws SeineError `REFUSED` if another process has the journal, `UNAVAILABLE` */
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
      await this.#releaseLock(); // it was removed meanwhile, and another agent may have made and locked the next one
    }
    throw new SeineError('UNAVAILABLE', `${this.#lockPath} is removed whenever it is created`);
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

/** Returns the identity of a file; undefined if it does not exist. @throws the system's error for an unreadable disk */
function identityAt(path: string): string | undefined {
  const present = statSync(path, { throwIfNoEntry: false });
  return present && identityOf(present);
}

/** Reads the whole file; empty if it does not exist. @throws SeineError `INVALID_INPUT` for a file that cannot be a journal */
async function readJournal(path: string): Promise<Uint8Array> {
  try {
    const { size } = await stat(path);
    if (size > bytesMax) throw new SeineError('INVALID_INPUT', `${path} has ${size} bytes and is not an IPAM journal`);
    return await readFile(path);
  } catch (thrown) {
    if (thrown instanceof Error && 'code' in thrown && thrown.code === 'ENOENT') return new Uint8Array();
    throw thrown;
  }
}

/**
 * Checks that this agent can read the journal, without taking the lock: another agent may still have it. To be called before anything is
 * changed.
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

/** Makes a rename durable (fsync(2): a directory entry is synced by fsync of the directory). */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
