/**
 * `npm run release:sign`: signs images, chart and the checksums of the files with cosign, and attaches SBOM and provenance to the images.
 *
 * Without `--key` cosign gets a certificate for the identity of the workflow (keyless), and writes to Sigstore's transparency log. With a key
 * it asks no service.
 */
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { builtProgram } from '../go/programs.mjs';
import { commonRows, type OptionRows, type OptionValues } from './options.ts';
import {
  type Architecture,
  byDigest,
  filesFolder,
  fromCaller,
  type ImageName,
  imageNames,
  imagesFolder,
  type PushedImage,
  placeholderDigest,
  pushedImages,
  readRecord,
} from './record.ts';
import { type Runner, runStep } from './step.ts';

const rows = {
  ...commonRows,
  key: { value: 'FILE', env: 'SEINE_COSIGN_KEY', about: 'private key of cosign, its password in COSIGN_PASSWORD; keyless if absent' },
} as const satisfies OptionRows;
type Values = OptionValues<keyof typeof rows>;

const checksums = 'SHA256SUMS';

async function main(values: Values, runner: Runner): Promise<void> {
  const out = fromCaller(values.text('out'));
  const registry = values.text('registry');
  const record = readRecord(out);
  const images = pushedImages(record, runner.isDry ? registry : undefined);
  const chart = record?.chart ?? (runner.isDry ? { repository: `${registry}/charts/seine`, digest: placeholderDigest } : undefined);
  if (chart === undefined) throw new Error('release.json has no chart: run `npm run release:manifest` first');
  const work = mkdtempSync(join(tmpdir(), 'seine-sign-'));
  try {
    const signer = await signerOf(values, runner, work);
    for (const name of imageNames) await signImage(name, images[name], { signer, out, work, isDry: runner.isDry });
    await signer.sign(byDigest(chart), 'one');
    await signFiles(filesFolder(out), signer, runner);
  } finally {
    rmSync(work, { recursive: true });
  }
}

interface Signer {
  /** `all` signs the images of an index, too. */
  sign(reference: string, what: 'one' | 'all'): Promise<void>;
  attest(reference: string, type: 'cyclonedx' | 'slsaprovenance1', predicate: string): Promise<void>;
  signFile(file: string, bundle: string): Promise<void>;
}

async function signerOf(values: Values, runner: Runner, work: string): Promise<Signer> {
  const cosign = runner.isDry ? 'cosign' : await builtProgram('cosign');
  const key = values.optional('key');
  const http = values.flag('plain-http') ? ['--allow-http-registry'] : [];
  if (key !== undefined && !runner.isDry && !existsSync(fromCaller(key)))
    throw new Error(`--key ${JSON.stringify(key)}: no such file; \`cosign generate-key-pair\` makes cosign.key`);
  const by = key === undefined ? [] : ['--key', fromCaller(key), '--signing-config', await withoutServices(cosign, runner, work)];
  const run = async (...args: readonly string[]) => void (await runner.run(cosign, args, { isQuiet: true }));
  return {
    sign: async (reference, what) => run('sign', '--yes', ...by, ...http, ...(what === 'all' ? ['--recursive'] : []), reference),
    attest: async (reference, type, predicate) =>
      run('attest', '--yes', ...by, ...http, '--type', type, '--predicate', predicate, reference),
    signFile: async (file, bundle) => run('sign-blob', '--yes', ...by, '--bundle', bundle, file),
  };
}

/** A configuration that names neither a transparency log nor a time stamp authority. */
async function withoutServices(cosign: string, runner: Runner, work: string): Promise<string> {
  const file = join(work, 'signing-config.json');
  await runner.run(cosign, ['signing-config', 'create', '--out', file], { isQuiet: true });
  return file;
}

interface ImageContext {
  readonly signer: Signer;
  readonly out: string;
  readonly work: string;
  readonly isDry: boolean;
}

/**
 * Signs the index and the images in it. SBOM and provenance belong to the image of one architecture; the index gets the provenance of both,
 * for controllers that check the digest in a pod's specification.
 */
async function signImage(name: ImageName, image: PushedImage, { signer, out, work, isDry }: ImageContext): Promise<void> {
  await signer.sign(byDigest(image), 'all');
  for (const [architecture, platform] of Object.entries(image.platforms) as [Architecture, { digest: string }][]) {
    const folder = imagesFolder(out, architecture);
    const reference = byDigest({ repository: image.repository, digest: platform.digest });
    await signer.attest(reference, 'cyclonedx', join(folder, `${name}.sbom.cdx.json`));
    const statement = join(folder, `${name}.provenance.json`);
    const provenance = isDry ? statement : predicateOf(statement, join(work, `${architecture}-${name}.json`));
    await signer.attest(reference, 'slsaprovenance1', provenance);
    await signer.attest(byDigest(image), 'slsaprovenance1', provenance);
  }
}

const statementSchema = z.looseObject({ predicateType: z.literal('https://slsa.dev/provenance/v1'), predicate: z.looseObject({}) });

/** Writes the predicate of a statement: cosign makes the statement again, with the digest of the manifest as its subject. */
function predicateOf(statement: string, file: string): string {
  const { predicate } = statementSchema.parse(JSON.parse(readFileSync(statement, 'utf8')));
  writeFileSync(file, JSON.stringify(predicate));
  return file;
}

/** Lists the SHA-256 of each file in the format of sha256sum(1), and signs the list. */
async function signFiles(folder: string, signer: Signer, runner: Runner): Promise<void> {
  const list = join(folder, checksums);
  const bundle = `${list}.sigstore.json`;
  if (!runner.isDry) {
    const names = readdirSync(folder).filter((name) => !name.startsWith(checksums));
    const lines = names.toSorted().map(
      (name) =>
        `${createHash('sha256')
          .update(readFileSync(join(folder, name)))
          .digest('hex')}  ${name}\n`,
    );
    writeFileSync(list, lines.join(''));
  }
  await signer.signFile(list, bundle);
  runner.note(runner.isDry ? `would write: ${list}, ${bundle}` : `${list}, ${bundle}`);
}

await runStep({
  name: 'release:sign',
  about: 'signs images, chart and files with cosign, and attaches SBOM and provenance',
  rows,
  run: main,
});
