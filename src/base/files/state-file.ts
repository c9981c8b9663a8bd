import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import { mkdir, open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { SeineError } from '../errors/seine-error.ts';

/** A small file, 0600 in a folder 0700, that is there whole or not at all. For one writer. */
export class StateFile {
  readonly #path: string;
  readonly #bytesMax: number;
  #writing: Promise<void> = Promise.resolve();

  constructor(path: string, bytesMax: number) {
    this.#path = path;
    this.#bytesMax = bytesMax;
  }

  /**
   * @returns undefined if there is none
   * @throws SeineError `INVALID_INPUT` for what is no plain file of this user, or is too long; `UNAVAILABLE`
   */
  read(): string | undefined {
    let fd: number;
    try {
      fd = openSync(this.#path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    } catch (cause) {
      const code = cause instanceof Error && 'code' in cause ? cause.code : undefined;
      if (code === 'ENOENT') return undefined;
      throw new SeineError(code === 'ELOOP' ? 'INVALID_INPUT' : 'UNAVAILABLE', `${this.#path} cannot be read`, { cause });
    }
    try {
      const found = fstatSync(fd);
      if (!found.isFile() || found.uid !== process.geteuid?.()) throw new SeineError('INVALID_INPUT', `${this.#path} is no file of ours`);
      const bytes = Buffer.alloc(this.#bytesMax + 1);
      const length = readSync(fd, bytes, 0, bytes.length, 0);
      if (length > this.#bytesMax) throw new SeineError('INVALID_INPUT', `${this.#path} is longer than ${this.#bytesMax} octets`);
      return bytes.toString('utf8', 0, length);
    } finally {
      closeSync(fd);
    }
  }

  /** Durable once resolved; writes are made one after the other. @throws SeineError `UNAVAILABLE`: the former content may still be there */
  async write(text: string): Promise<void> {
    const turn = this.#writing.then(() => this.#replace(text));
    this.#writing = turn.catch(() => undefined); // told to whoever asked for it
    await turn;
  }

  async #replace(text: string): Promise<void> {
    const draft = `${this.#path}.new`;
    const folder = dirname(this.#path);
    try {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      await rm(draft, { force: true });
      const file = await open(draft, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o600);
      try {
        await file.writeFile(text);
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(draft, this.#path);
      await syncFolder(folder);
    } catch (cause) {
      throw new SeineError('UNAVAILABLE', `${this.#path} cannot be written`, { cause });
    }
  }
}

/** Without this, a crash of the machine may bring the former content back. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
