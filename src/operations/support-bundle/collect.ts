import { setTimeout as sleep } from 'node:timers/promises';
import { seineVersion } from '../../api/version.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { ArchiveWriter } from './archive.ts';
import { bundleFormat, type Manifest, manifestName, type PartRecord } from './manifest.ts';
import { redact } from './redact.ts';

/** File of a bundle, and its source. */
export interface BundlePart {
  readonly name: string;
  /** @throws the reason why it is missing */
  gather(signal: AbortSignal): Promise<string> | string;
}

export interface Limits {
  /** Maximum size of the part; more is cut off. */
  readonly bytes: number;
  readonly partMs: number;
  readonly wholeMs: number;
}

/** Divisor of the time limit for a source that was too slow once, so that the others keep their time. */
const SLOWER = 15;
/** Minimum remaining time to begin a part. */
const LEAST_MS = 10;

export const usualLimits: Limits = { bytes: 64 * 1024 * 1024, partMs: 15_000, wholeMs: 120_000 };

interface Collecting {
  readonly node: string;
  readonly archive: Pick<ArchiveWriter, 'add'>;
  readonly limits: Limits;
  readonly onPart: (record: PartRecord) => void;
}

/**
 * Gathers parts one after the other, redacts secrets, and writes them with a manifest. A part that fails, or takes too long, is recorded
 * with the reason; the others are present.
 *
 * @throws SeineError `INVALID_INPUT` if the archive cannot be written, `CANCELLED`
 */
export async function collect(parts: readonly BundlePart[], collecting: Collecting, signal: AbortSignal): Promise<Manifest> {
  const { node, archive, limits, onPart } = collecting;
  const begun = new Date().toISOString();
  const endMs = performance.now() + limits.wholeMs;
  const records: PartRecord[] = [];
  const slow = new Set<string>();
  for (const part of parts) {
    signal.throwIfAborted();
    const source = sourceOf(part);
    const leftMs = Math.min(slow.has(source) ? limits.partMs / SLOWER : limits.partMs, endMs - performance.now());
    const { record, bytes } = await gathered(part, limits.bytes, leftMs, signal);
    if (record.state === 'failed' && record.tookMs >= leftMs) slow.add(source);
    if (bytes) await archive.add(part.name, bytes);
    records.push(record);
    onPart(record);
  }
  const ended = new Date().toISOString();
  const manifest: Manifest = { format: bundleFormat, seine: seineVersion, node, begun, ended, parts: records };
  await archive.add(manifestName, Buffer.from(`${JSON.stringify(manifest, undefined, 2)}\n`));
  return manifest;
}

/** Source of a part: its folder. */
function sourceOf({ name }: BundlePart): string {
  return name.slice(0, Math.max(0, name.indexOf('/')));
}

interface Gathered {
  readonly record: PartRecord;
  readonly bytes?: Uint8Array;
}

async function gathered({ name, gather }: BundlePart, bytesMax: number, patienceMs: number, signal: AbortSignal): Promise<Gathered> {
  const startedMs = performance.now();
  const failed = (reason: string, state: 'failed' | 'absent' = 'failed'): Gathered => ({
    record: { name, state, bytes: 0, tookMs: Math.round(performance.now() - startedMs), reason: redact(reason) },
  });
  if (patienceMs < LEAST_MS) return failed('there was no time left');
  const enough = new AbortController();
  const patience = AbortSignal.any([signal, enough.signal]);
  try {
    // A part that ignores its signal must not block the others.
    const late = sleep(patienceMs, undefined, { signal: patience }).then(() => {
      throw new SeineError('UNAVAILABLE', `not there within ${Math.round(patienceMs / 1_000)} s`);
    });
    const text = await Promise.race([Promise.resolve(patience).then(gather), late]);
    const bytes = Buffer.from(redact(text.slice(0, bytesMax)));
    const kept = bytes.subarray(0, bytesMax);
    const isWhole = text.length <= bytesMax && kept.length === bytes.length;
    const tookMs = Math.round(performance.now() - startedMs);
    const cut = isWhole ? {} : { reason: `cut after ${bytesMax} bytes` };
    return { record: { name, state: isWhole ? 'whole' : 'cut', bytes: kept.length, tookMs, ...cut }, bytes: kept };
  } catch (thrown) {
    signal.throwIfAborted();
    return failed(SeineError.from(thrown, 'read').message, isAbsence(thrown) ? 'absent' : 'failed');
  } finally {
    enough.abort();
  }
}

/** A log that this node keeps elsewhere is recorded in the manifest, and is not a failure. */
function isAbsence(thrown: unknown): boolean {
  return thrown instanceof Error && 'code' in thrown && thrown.code === 'ENOENT';
}
