import { z } from 'zod';
import { SeineError } from '../../base/errors/seine-error.ts';

/** Incremented when an older reader would misread a bundle. */
export const bundleFormat = 1;
export const manifestName = 'manifest.json';

const part = z.object({
  name: z.string(),
  /** `cut`: only its beginning is present. `absent`: this node has no such file. */
  state: z.enum(['whole', 'cut', 'absent', 'failed']),
  bytes: z.int(),
  tookMs: z.number(),
  /** Reason why it is absent or incomplete. */
  reason: z.string().exactOptional(),
});

const manifest = z.object({
  format: z.literal(bundleFormat),
  /** Version of the program that created it. */
  seine: z.string(),
  node: z.string(),
  /** RFC 3339. */
  begun: z.string(),
  ended: z.string(),
  parts: z.array(part),
});

/** Outcome of one file of a bundle. */
export type PartRecord = Readonly<z.output<typeof part>>;

/** File of a bundle to read first; it is written last. */
export type Manifest = Readonly<Omit<z.output<typeof manifest>, 'parts'>> & { readonly parts: readonly PartRecord[] };

/** @throws SeineError `INVALID_INPUT` */
export function parseManifest(text: string): Manifest {
  const value = parsed(text);
  const format = typeof value === 'object' && value !== null && 'format' in value ? value.format : undefined;
  if (format !== bundleFormat)
    throw new SeineError('INVALID_INPUT', `the bundle has format ${JSON.stringify(format) ?? 'none'}; this program reads ${bundleFormat}`);
  const result = manifest.safeParse(value);
  if (result.success) return result.data;
  const [first] = result.error.issues;
  throw new SeineError('INVALID_INPUT', `the manifest: ${first?.path.join('.') ?? ''}: ${first?.message ?? 'cannot be parsed'}`);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new SeineError('INVALID_INPUT', 'the manifest is not JSON', { cause });
  }
}
