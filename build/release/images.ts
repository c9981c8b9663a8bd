/**
 * `npm run release:images`: builds both images of the commit that is checked out for each architecture, and pushes them as one name each.
 *
 * podman builds by `build/images/build.mjs`, and pushes: so layers are compressed by one program, and a second push has the same digests.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { withEmulation } from '../arm64/emulation.mjs';
import { builtProgram } from '../go/programs.mjs';
import { root } from '../setup/paths.mjs';
import { buildArguments, buildRows, chosenArchitectures, needsEmulation } from './build-options.ts';
import { commonRows, type OptionValues } from './options.ts';
import {
  type Architecture,
  byDigest,
  fromCaller,
  type ImageName,
  imageNames,
  imagesFolder,
  type PushedImage,
  packageVersion,
  placeholderDigest,
  readRecord,
  writeRecord,
} from './record.ts';
import { type Runner, runStep } from './step.ts';

const rows = { ...commonRows, ...buildRows } as const;
type Values = OptionValues<keyof typeof rows>;

/** Inputs of a step of this file. */
interface Context {
  readonly values: Values;
  readonly runner: Runner;
  readonly crane: string;
  readonly out: string;
  readonly version: string;
}

/** Name of an image in podman's own store. */
const localName = (name: ImageName, architecture: Architecture, version: string) => `${localPrefix(architecture)}/${name}:${version}`;
const localPrefix = (architecture: Architecture) => `localhost/seine-release/${architecture}`;

async function main(values: Values, runner: Runner): Promise<void> {
  const registry = values.text('registry');
  const architectures = chosenArchitectures(values);
  const out = fromCaller(values.text('out'));
  const crane = runner.isDry ? 'crane' : await builtProgram('crane');
  const context = { values, runner, crane, out, version: packageVersion() };
  const build = async () => {
    for (const architecture of architectures) await buildImages(architecture, context);
  };
  if (!runner.isDry && needsEmulation(architectures)) await withEmulation(build);
  else await build();
  for (const name of imageNames) await publish(name, `${registry}/${name}`, architectures, context);
}

async function buildImages(architecture: Architecture, { values, runner, out }: Context): Promise<void> {
  const folder = imagesFolder(out, architecture);
  if (!runner.isDry) mkdirSync(folder, { recursive: true });
  const args = buildArguments({ values, architecture, prefix: localPrefix(architecture), out: folder, only: imageNames });
  await runner.run(process.execPath, [join(root, 'build', 'images', 'build.mjs'), ...args]);
}

async function publish(name: ImageName, repository: string, architectures: readonly Architecture[], context: Context): Promise<void> {
  const { runner, out, version } = context;
  const ids = await Promise.all(architectures.map((architecture) => imageId(localName(name, architecture, version), context)));
  const there = await digestThere(`${repository}:${version}`, context);
  const digest = there === undefined ? await push(name, repository, architectures, context) : there;
  if (runner.isDry) return;
  const image = await pushedImage(repository, digest, context);
  await checkContent(`${repository}:${version}`, image, Object.fromEntries(architectures.map((each, at) => [each, ids[at]])), context);
  const commit = execFileSync('git', ['-c', `safe.directory=${root}`, '-C', root, 'rev-parse', 'HEAD'], { encoding: 'utf8' }).trim();
  const record = readRecord(out) ?? { version, commit, images: {} };
  writeRecord(out, { ...record, commit, images: { ...record.images, [name]: image } });
  runner.note(`${there === undefined ? 'pushed' : 'already there'}: ${byDigest(image)}`);
  for (const [architecture, { compressedBytes }] of Object.entries(image.platforms))
    runner.note(`  linux/${architecture}: ${(compressedBytes / 1e6).toFixed(1)} MB compressed`);
}

/** Digest of the configuration of an image in podman's store, which names all its layers. */
async function imageId(name: string, { runner }: Context): Promise<string> {
  return (await runner.run('podman', ['image', 'inspect', '--format', '{{.Id}}', name])).trim();
}

async function push(name: ImageName, repository: string, architectures: readonly Architecture[], context: Context): Promise<string> {
  const { values, runner, out, version } = context;
  const list = `localhost/seine-release/${name}:${version}`;
  await runner.run('podman', ['manifest', 'rm', list], { isQuiet: true }).catch(() => undefined); // of an earlier run; usually there is none
  await runner.run('podman', ['manifest', 'create', list]);
  for (const architecture of architectures)
    await runner.run('podman', ['manifest', 'add', list, `containers-storage:${localName(name, architecture, version)}`]);
  const digestFile = join(out, `${name}.digest`);
  const tls = values.flag('plain-http') ? ['--tls-verify=false'] : [];
  const target = `docker://${repository}:${version}`;
  await runner.run('podman', ['manifest', 'push', '--all', '--format', 'oci', ...tls, '--digestfile', digestFile, list, target]);
  return runner.isDry ? placeholderDigest : readFileSync(digestFile, 'utf8').trim();
}

/** Digest of a name in the registry, or undefined if the registry answers that there is none. */
async function digestThere(reference: string, { crane, runner, values }: Context): Promise<string | undefined> {
  const listed = await runner.run(crane, ['digest', ...insecure(values), reference], { isQuiet: true }).catch((error: Error) => {
    if (/NAME_UNKNOWN|MANIFEST_UNKNOWN|404 Not Found/.test(error.message)) return '';
    throw new Error(`the registry of ${reference} does not answer as one: ${error.message}`, { cause: error });
  });
  return listed.trim() || undefined;
}

const insecure = (values: Values) => (values.flag('plain-http') ? ['--insecure'] : []);

const descriptor = z.looseObject({ digest: z.string(), size: z.number() });
const indexSchema = z.looseObject({
  manifests: z.array(descriptor.extend({ platform: z.looseObject({ architecture: z.enum(['amd64', 'arm64']) }) })),
});
const manifestSchema = z.looseObject({ config: descriptor, layers: z.array(descriptor) });

async function manifestOf(reference: string, { crane, runner, values }: Context): Promise<unknown> {
  return JSON.parse(await runner.run(crane, ['manifest', ...insecure(values), reference]));
}

/** Reads from the registry what was pushed. */
async function pushedImage(repository: string, digest: string, context: Context): Promise<PushedImage> {
  const { manifests } = indexSchema.parse(await manifestOf(`${repository}@${digest}`, context));
  const platforms: Record<string, PushedImage['platforms'][Architecture]> = {};
  for (const { digest: of, platform } of manifests) {
    const { config, layers } = manifestSchema.parse(await manifestOf(`${repository}@${of}`, context));
    platforms[platform.architecture] = { digest: of, compressedBytes: layers.reduce((sum, { size }) => sum + size, config.size) };
  }
  return { repository, digest, platforms };
}

/**
 * Compares an image in the registry with the one that was built. Names of releases are not moved: nodes that pull by name would run another
 * image than the signed one.
 *
 * @throws Error naming the tag, if the registry has another image under it
 */
async function checkContent(
  reference: string,
  { repository, platforms }: PushedImage,
  built: Readonly<Record<string, string | undefined>>,
  context: Context,
): Promise<void> {
  for (const [architecture, id] of Object.entries(built)) {
    const platform = platforms[architecture as Architecture];
    const remedy = 'raise the version, or delete the tag if it cannot have been pulled';
    if (platform === undefined) throw new Error(`${reference} is in the registry without linux/${architecture}: ${remedy}`);
    const { config } = manifestSchema.parse(await manifestOf(`${repository}@${platform.digest}`, context));
    if (config.digest !== `sha256:${id}`)
      throw new Error(
        `${reference} for linux/${architecture} is in the registry as ${config.digest}, and sha256:${id} was built: ${remedy}`,
      );
  }
}

await runStep({
  name: 'release:images',
  about: 'builds both images for each architecture, and pushes them',
  rows,
  run: main,
});
