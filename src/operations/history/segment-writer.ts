import { constants } from 'node:fs';
import { type FileHandle, mkdir, open } from 'node:fs/promises';
import { join } from 'node:path';
import { createZstdCompress, type ZstdCompress, constants as zlib } from 'node:zlib';
import { type HistoryStream, listSegments, removeOldest, segmentName } from './segment-files.ts';

/** A file that bytes are appended to. */
export type AppendedFile = Pick<FileHandle, 'appendFile' | 'close'>;

export interface SegmentWriterOptions {
  readonly folder: string;
  readonly stream: HistoryStream;
  /** Maximum size of all segments of the stream (bytes). */
  readonly bytesMax: number;
  /** First line of each segment. */
  readonly header: () => object;
  /** Milliseconds from any fixed moment; never goes back. */
  readonly now: () => number;
  /** Milliseconds since the epoch, for names of files. */
  readonly wallMs: () => number;
  /** Creates a file that must not exist yet; replaced by tests. */
  readonly create?: (path: string) => Promise<AppendedFile>;
}

/** Size at which a segment ends (bytes), and its maximum duration (ms). */
const SEGMENT_BYTES = 1024 * 1024;
const SEGMENT_MS = 600_000;

/** Low memory instead of the last percent of size: the window is 128 KiB, and the compressor needs about 0.6 MB. */
const params = { [zlib.ZSTD_c_compressionLevel]: 1, [zlib.ZSTD_c_windowLog]: 17, [zlib.ZSTD_c_checksumFlag]: 1 };

interface OpenSegment {
  readonly file: AppendedFile;
  readonly compressor: ZstdCompress;
  /** Compressed bytes that are not in the file yet. */
  readonly pending: Buffer[];
  readonly startedMs: number;
  bytes: number;
}

/**
 * Appends lines to the segments of one stream. What a completed `flush` has written is read again after the process was killed at any
 * moment (RFC 8878: a decoder returns every complete block). Not synced to disk: a crash of the host may lose more.
 */
export class SegmentWriter {
  readonly #options: SegmentWriterOptions;
  #segment: OpenSegment | undefined;
  #number: number | undefined;

  constructor(options: SegmentWriterOptions) {
    this.#options = options;
  }

  /** True if a segment is open: later lines of its stream may refer to earlier ones in it. */
  get isOpen(): boolean {
    return this.#segment !== undefined;
  }

  /** True if the next line begins another segment. */
  get isFull(): boolean {
    const { bytesMax, now } = this.#options;
    const segment = this.#segment;
    if (segment === undefined) return true;
    return segment.bytes >= Math.min(SEGMENT_BYTES, bytesMax / 4) || now() - segment.startedMs >= SEGMENT_MS;
  }

  /** Compresses lines. @param text complete lines. @throws the error of the file system; the segment is closed then */
  async append(text: string): Promise<void> {
    try {
      const segment = await this.#writable();
      await new Promise<void>((resolve, reject) => segment.compressor.write(text, (error) => (error ? reject(error) : resolve())));
      await drain(segment);
    } catch (thrown) {
      await this.close();
      throw thrown;
    }
  }

  /** Writes all compressed lines to the file. @throws like `append` */
  async flush(): Promise<void> {
    const segment = this.#segment;
    if (segment === undefined) return;
    try {
      await new Promise<void>((resolve) => segment.compressor.flush(zlib.ZSTD_e_flush, () => resolve()));
      await drain(segment);
    } catch (thrown) {
      await this.close();
      throw thrown;
    }
  }

  /** Ends the segment. Never rejects: what was flushed stays readable. */
  async close(): Promise<void> {
    const segment = this.#segment;
    this.#segment = undefined;
    if (segment === undefined) return;
    const ended = new Promise<void>((resolve) => segment.compressor.once('close', () => resolve()));
    segment.compressor.end();
    await ended;
    await drain(segment).catch(() => undefined); // the disk is full, or the file system is gone
    await segment.file.close().catch(() => undefined); // all that counts was written
  }

  async #writable(): Promise<OpenSegment> {
    if (this.isFull) await this.close();
    this.#segment ??= await this.#begin();
    return this.#segment;
  }

  async #begin(): Promise<OpenSegment> {
    const { folder, stream, bytesMax, header, now, wallMs, create = createSegment } = this.#options;
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await removeOldest(folder, stream, bytesMax - Math.min(SEGMENT_BYTES, bytesMax / 4));
    // Numbers are read again: a file of an earlier agent, or one that could not be written, has its own.
    this.#number = Math.max(this.#number ?? 0, (await listSegments(folder, stream)).at(-1)?.number ?? 0) + 1;
    const file = await create(join(folder, segmentName(stream, this.#number, wallMs())));
    const pending: Buffer[] = [];
    const compressor = createZstdCompress({ params });
    compressor.on('data', (bytes: Buffer) => pending.push(bytes));
    compressor.on('error', () => undefined); // also reported to the write that causes it
    compressor.write(`${JSON.stringify(header())}\n`);
    return { file, compressor, pending, startedMs: now(), bytes: 0 };
  }
}

async function drain(segment: OpenSegment): Promise<void> {
  const bytes = Buffer.concat(segment.pending.splice(0));
  if (bytes.length === 0) return;
  await segment.file.appendFile(bytes);
  segment.bytes += bytes.length;
}

async function createSegment(path: string): Promise<AppendedFile> {
  return await open(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_APPEND | constants.O_NOFOLLOW, 0o600);
}
