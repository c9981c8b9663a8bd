import { createReadStream, createWriteStream, openSync } from 'node:fs';
import { Readable, Transform, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import { createTarPacker, type TarHeader, unpackTar } from 'modern-tar';
import { SeineError } from '../../base/errors/seine-error.ts';

/** Maximum size after decompression (bytes): a bundle comes from elsewhere and must fit into memory. */
const UNPACKED_MAX = 1024 * 1024 * 1024;

/** Compressed tar archive that is written file by file. Readable by root only. */
export class ArchiveWriter {
  readonly #packer = createTarPacker();
  readonly #written: Promise<void>;
  readonly #folder: string;

  /**
   * @param place a path, which must not exist, or a stream, which is left open
   * @param folder of all files, so that unpacking creates one folder
   * @throws SeineError `INVALID_INPUT` if the file already exists, or cannot be created
   */
  constructor(place: string | Writable, folder: string) {
    this.#folder = folder;
    const isPath = typeof place === 'string';
    const out = isPath ? createWriteStream(place, { fd: openNew(place) }) : place;
    this.#written = pipeline(Readable.fromWeb(this.#packer.readable), createGzip(), out, { end: isPath });
    this.#written.catch(() => undefined); // reported to the caller of add or close
  }

  /** @throws SeineError `INVALID_INPUT` if the archive cannot be written */
  async add(name: string, bytes: Uint8Array): Promise<void> {
    await this.#orFailure(Promise.race([this.#packed(name, bytes), this.#written]));
  }

  async close(): Promise<void> {
    this.#packer.controller.finalize();
    await this.#orFailure(this.#written);
  }

  async #packed(name: string, bytes: Uint8Array): Promise<void> {
    const entry = { name: `${this.#folder}/${name}`, size: bytes.length, mode: 0o600, type: 'file' } as const;
    const writer = this.#packer.controller.add(entry).getWriter();
    await writer.write(bytes);
    await writer.close();
  }

  async #orFailure(work: Promise<unknown>): Promise<void> {
    try {
      await work;
    } catch (thrown) {
      throw unwritable(thrown);
    }
  }
}

function openNew(path: string): number {
  try {
    return openSync(path, 'wx', 0o600);
  } catch (thrown) {
    throw unwritable(thrown);
  }
}

function unwritable(thrown: unknown): SeineError {
  const reason = thrown instanceof Error ? thrown.message : String(thrown);
  return new SeineError('INVALID_INPUT', `the archive cannot be written: ${reason}`, { cause: thrown });
}

/**
 * Files of a bundle, by their names without the folder.
 *
 * @param which other files are skipped
 * @throws SeineError `INVALID_INPUT` if it is not a bundle, or is too large
 */
export async function readArchive(
  path: string,
  which: (name: string) => boolean,
  unpackedMax = UNPACKED_MAX,
): Promise<ReadonlyMap<string, Uint8Array>> {
  const tar = bounded(unpackedMax);
  const reading = pipeline(createReadStream(path), createGunzip(), tar);
  reading.catch(() => undefined); // awaited below
  try {
    const filter = ({ name, type }: TarHeader): boolean => type === 'file' && which(withoutFolder(name));
    const entries = await unpackTar(Readable.toWeb(tar) as ReadableStream<Uint8Array>, { strict: true, filter });
    await reading;
    return new Map(entries.map(({ header, data }) => [withoutFolder(header.name), data ?? new Uint8Array(0)]));
  } catch (thrown) {
    const cause: unknown = await reading.then(
      () => thrown,
      (why: unknown) => why,
    );
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new SeineError('INVALID_INPUT', `${path} is not a readable bundle: ${reason}`, { cause: thrown });
  }
}

function withoutFolder(name: string): string {
  return name.slice(name.indexOf('/') + 1);
}

function bounded(unpackedMax: number): Transform {
  let unpacked = 0;
  return new Transform({
    transform(chunk: Uint8Array, _, done) {
      unpacked += chunk.length;
      if (unpacked > unpackedMax) done(new Error(`it unpacks to more than ${unpackedMax} bytes`));
      else done(null, chunk);
    },
  });
}
