import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import { mkdir, open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { SeineError } from '../errors/seine-error.ts';

/** Small file with mode 0600 in a directory with mode 0700 that exists completely or not at all. For one writer. */
export class StateFile {
  readonly #path: string;
  readonly #bytesMax: number;
  #writing: Promise<void> = Promise.resolve();

  constructor(path: string, bytesMax: number) {
    this.#path = path;
    this.#bytesMax = bytesMax;
  }

  /**
   * Reads the file.
   *
   * @returns undefined if it does not exist
   * @throws SeineError `INVALID_INPUT` if it is not a regular file of this user, or is too long; `UNAVAILABLE`
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
      if (!found.isFile() || found.uid !== process.geteuid?.())
        throw new SeineError('INVALID_INPUT', `${this.#path} is not a file of Seine`);
      const bytes = Buffer.alloc(this.#bytesMax + 1);
      const length = readSync(fd, bytes, 0, bytes.length, 0);
      if (length > this.#bytesMax) throw new SeineError('INVALID_INPUT', `${this.#path} is longer than ${this.#bytesMax} bytes`);
      return bytes.toString('utf8', 0, length);
    } finally {
      closeSync(fd);
    }
  }

  /**
   * Writes the file; durable once resolved. Writes run one after another.
   *
   * @throws SeineError `UNAVAILABLE`: the previous content may still be there
   */
  async write(text: string): Promise<void> {
    const turn = this.#writing.then(() => this.#replace(text));
    this.#writing = turn.catch(() => undefined); // reported to the caller of that write
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

/** Makes a rename durable: otherwise a crash of the host may restore the previous content. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
