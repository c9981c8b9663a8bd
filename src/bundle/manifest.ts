import { SeineError } from '../errors/seine-error.ts';

/** Grows when an older reader would misunderstand a bundle. */
export const bundleFormat = 1;
export const manifestName = 'manifest.json';

/** What became of one file of a bundle. */
export interface PartRecord {
  readonly name: string;
  /** `cut`: its beginning is there. `absent`: this node has no such file. */
  readonly state: 'whole' | 'cut' | 'absent' | 'failed';
  readonly bytes: number;
  readonly tookMs: number;
  /** Why it is not there, or not whole. */
  readonly reason?: string;
}

/** The first thing to read of a bundle; the last that is written. */
export interface Manifest {
  readonly format: typeof bundleFormat;
  /** Version of the program that made it. */
  readonly seine: string;
  readonly node: string;
  /** RFC 3339. */
  readonly begun: string;
  readonly ended: string;
  readonly parts: readonly PartRecord[];
}

/** @throws SeineError `INVALID_INPUT` */
export function parseManifest(text: string): Manifest {
  const value = parsed(text);
  if (typeof value !== 'object' || value === null || !('format' in value))
    throw new SeineError('INVALID_INPUT', 'the manifest has no format');
  if (value.format !== bundleFormat)
    throw new SeineError('INVALID_INPUT', `the bundle has format ${JSON.stringify(value.format)}; this program reads ${bundleFormat}`);
  if (!('parts' in value) || !Array.isArray(value.parts)) throw new SeineError('INVALID_INPUT', 'the manifest has no parts');
  return value as Manifest;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new SeineError('INVALID_INPUT', 'the manifest is no JSON', { cause });
  }
}
