import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import { root } from '../setup/paths.mjs';

/*
 * release.json: the digests of what one step of a release has pushed, for the steps that follow.
 */

export const imageNames = ['agent', 'ovs'] as const;
export type ImageName = (typeof imageNames)[number];

/** Architectures of a release, with the names of OCI. */
export const architectures = ['amd64', 'arm64'] as const;
export type Architecture = (typeof architectures)[number];

const digest = z.string().regex(/^sha256:[0-9a-f]{64}$/);
const platform = z.strictObject({ digest, compressedBytes: z.number().int().positive() });
const image = z.strictObject({ repository: z.string(), digest, platforms: z.partialRecord(z.enum(architectures), platform) });
const schema = z.strictObject({
  version: z.string(),
  commit: z.string(),
  images: z.partialRecord(z.enum(imageNames), image).default({}),
  chart: z.strictObject({ repository: z.string(), digest }).optional(),
});

export type ReleaseRecord = z.infer<typeof schema>;
export type PushedImage = z.infer<typeof image>;

/** Stands for a digest in a dry run. */
export const placeholderDigest = `sha256:${'0'.repeat(64)}`;

/** Folder of the files that users download. */
export const filesFolder = (out: string) => join(out, 'files');

/** Folder of SBOM and provenance of the images of an architecture. */
export const imagesFolder = (out: string, architecture: Architecture) => join(out, 'images', architecture);

/** Path that a relative one means: npm runs scripts in the checkout, and keeps the caller's folder in `INIT_CWD`. */
export const fromCaller = (path: string) => resolve(process.env['INIT_CWD'] ?? '.', path);

/** Version in package.json. */
export function packageVersion(): string {
  return z.looseObject({ version: z.string() }).parse(JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))).version;
}

const fileIn = (out: string) => join(out, 'release.json');

/**
 * The record, or undefined if there is none.
 *
 * @throws Error naming the file and field, if it is invalid or of another version
 */
export function readRecord(out: string): ReleaseRecord | undefined {
  const file = fileIn(out);
  if (!existsSync(file)) return undefined;
  let parsed: unknown;
  try {
    parsed = JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    throw new Error(`${file} is not JSON: ${error instanceof Error ? error.message : error}; delete it, and push the images again`);
  }
  const { success, data, error } = schema.safeParse(parsed);
  const [issue] = error?.issues ?? [];
  if (!success) throw new Error(`${file}: ${issue?.path.join('.')}: ${issue?.message}; delete it, and push the images again`);
  if (data.version !== packageVersion())
    throw new Error(`${file} has version ${data.version}, and package.json ${packageVersion()}: give --out an empty folder`);
  return data;
}

/** Renames the record into place when it is whole. */
export function writeRecord(out: string, record: ReleaseRecord): void {
  mkdirSync(out, { recursive: true });
  writeFileSync(`${fileIn(out)}.draft`, `${JSON.stringify(schema.parse(record), null, 2)}\n`);
  renameSync(`${fileIn(out)}.draft`, fileIn(out));
}

/** An image by its digest. */
export const byDigest = ({ repository, digest: of }: { readonly repository: string; readonly digest: string }) => `${repository}@${of}`;

/**
 * The images that a step needs; placeholders in a dry run without a record.
 *
 * @throws Error naming the step that has to run first
 */
export function pushedImages(record: ReleaseRecord | undefined, dryRegistry?: string): Readonly<Record<ImageName, PushedImage>> {
  const of = (name: ImageName): PushedImage => {
    const found = record?.images[name];
    if (found !== undefined) return found;
    if (dryRegistry === undefined) throw new Error(`release.json has no image ${name}: run \`npm run release:images\` first`);
    return { repository: `${dryRegistry}/${name}`, digest: placeholderDigest, platforms: placeholderPlatforms() };
  };
  return { agent: of('agent'), ovs: of('ovs') };
}

function placeholderPlatforms(): PushedImage['platforms'] {
  return { amd64: { digest: placeholderDigest, compressedBytes: 1 }, arm64: { digest: placeholderDigest, compressedBytes: 1 } };
}
