import { copyFileSync, existsSync, mkdirSync, readFileSync, realpathSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { mirror } from '../../build/setup/debian-mirror.mjs';
import { run, runAnyway } from '../../lab/machine/process.ts';

const root = resolve(import.meta.dirname, '..', '..');
/** Cache of the set-up: missing content is recreated. */
const cache = join(root, '.cache', 'images');

const imageNames = ['ovs', 'agent'] as const;
type ImageName = (typeof imageNames)[number];

/** Names in Debian and podman. */
export type Architecture = 'amd64' | 'arm64';
const own: Architecture = process.arch === 'arm64' ? 'arm64' : 'amd64';
/** Suffix of names; none for this host's architecture. */
const suffix = (architecture: Architecture) => (architecture === own ? '' : `-${architecture}`);
const tagOf = (name: string, architecture: Architecture) => `localhost/seine/${name}:test${suffix(architecture)}`;

export const imagesFor = (architecture: Architecture) => ({ agent: tagOf('agent', architecture), ovs: tagOf('ovs', architecture) });
export const { agent: agentImage, ovs: ovsImage } = imagesFor(own);
/** Images of a released version, for this host. */
export const imagesOfRelease = (version: string) => ({
  agent: `localhost/seine/agent:${version}`,
  ovs: `localhost/seine/ovs:${version}`,
});
/** A Debian that the image of Open vSwitch may be based on as well. */
const olderDebian = 'bookworm';
export const olderOvsImage = `localhost/seine/ovs:${olderDebian}`;

/** Settings of podman for a host that may be a container itself. */
const runFolder = '/run/seine-images';
const configuration = `[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
runtime = "runc"
tmp_dir = "${runFolder}/tmp"
`;

export const podmanEnvironment = { CONTAINERS_CONF: join(cache, 'containers.conf') };
const storage = join(cache, 'storage');
export const podmanOptions = ['--root', storage, '--runroot', runFolder, '--tmpdir', `${runFolder}/tmp`];
/** Options of `podman build`: the network and the certificates of mirrors and registries are this host's. */
export const buildOptions = ['--network', 'host', '--isolation', 'oci', '--layers', '--volume', '/etc/ssl/certs:/etc/ssl/certs:ro'];

export async function podman(args: readonly string[], signal: AbortSignal): Promise<string> {
  return await run('podman', [...podmanOptions, ...args], { env: podmanEnvironment }, signal);
}

/**
 * Builds the images of an installation as a user would, but from bases made here: no registry of images is contacted. Debian packages come
 * from this host's apt source, npm packages from its npm registry. Layers are kept: a second build takes seconds. For another architecture
 * than this host's, the kernel needs an emulator for its programs.
 */
export async function buildImages(signal: AbortSignal, architecture: Architecture = own): Promise<void> {
  for (const name of imageNames) {
    const bases = await makeBases(name, signal, { architecture });
    await build({ source: root, name, tag: imagesFor(architecture)[name], bases, architecture }, signal);
  }
}

/** The images of a released version, built in the same way. @param source its files, as in its commit */
export async function buildImagesOfRelease(version: string, source: string, signal: AbortSignal): Promise<void> {
  for (const name of imageNames) {
    const bases = await makeBases(name, signal, { debian: debianOf(source, name) });
    await build({ source, name, tag: imagesOfRelease(version)[name], bases, architecture: own }, signal);
  }
}

/** @returns environment of a shell whose `podman` uses the storage of `podman` here */
export function shellEnvironment(): Readonly<Record<string, string>> {
  const file = join(cache, 'storage.conf');
  mkdirSync(cache, { recursive: true });
  writeFileSync(file, `[storage]\ndriver = "overlay"\ngraphroot = "${storage}"\nrunroot = "${runFolder}"\n`);
  return { ...podmanEnvironment, CONTAINERS_STORAGE_CONF: file };
}

/** The checkout, with Open vSwitch of an older Debian. */
export async function buildOlderOvs(signal: AbortSignal): Promise<void> {
  const bases = await makeBases('ovs', signal, { debian: olderDebian });
  await build({ source: root, name: 'ovs', tag: olderOvsImage, bases, architecture: own }, signal);
}

/** The Debian, by its code name, that a Dockerfile of a checkout names. */
function debianOf(source: string, name: ImageName): string {
  const dockerfile = readFileSync(join(source, 'build', 'images', `${name}.Dockerfile`), 'utf8');
  const [, release] = /^ARG BASE=\S+\/debian:(\w+)-slim$/m.exec(dockerfile) ?? [];
  if (release === undefined) throw new Error(`the image ${name} in ${source} names no Debian`);
  return release;
}

/** Build arguments of a Dockerfile. */
export interface Bases {
  readonly BASE: string;
  /** Nothing is compiled for Open vSwitch. */
  readonly BUILD_BASE?: string;
}

interface BasesWanted {
  readonly architecture?: Architecture;
  /** Code name; the one of the checkout's Dockerfile if absent. */
  readonly debian?: string;
}

/** Substitutes for the images that a Dockerfile names. @returns their names here */
export async function makeBases(
  name: ImageName,
  signal: AbortSignal,
  { architecture = own, debian = debianOf(root, name) }: BasesWanted = {},
): Promise<Bases> {
  mkdirSync(cache, { recursive: true });
  writeFileSync(join(cache, 'containers.conf'), configuration);
  const archive = await makeBase(architecture, signal, debian);
  const base = `localhost/seine/base:${debian}${suffix(architecture)}`;
  if (!(await exists(base, signal))) await podman(['import', '--arch', architecture, archive, base], signal);
  if (name === 'ovs') return { BASE: base };
  // What builds runs on this host, whatever the architecture of the image.
  const buildBase = `localhost/seine/build-base:${debian}`;
  if (!(await exists(buildBase, signal))) await makeBuildBase(await makeBase(own, signal, debian), buildBase, signal);
  return { BASE: base, BUILD_BASE: buildBase };
}

/** podman leaves its storage mounted on itself; the cache can be deleted again after this. */
export async function releaseStorage(signal: AbortSignal): Promise<void> {
  await runAnyway('umount', [join(cache, 'storage', 'overlay')], {}, signal);
}

/** podman 4.3 does not define it when `--platform` is given. */
const hostPlatform = ['--build-arg', `BUILDPLATFORM=linux/${own}`];

interface ImageBuild {
  /** The checkout whose Dockerfiles are used. */
  readonly source: string;
  readonly name: ImageName;
  readonly tag: string;
  readonly bases: Bases;
  readonly architecture: Architecture;
}

async function build({ source, name, tag, bases, architecture }: ImageBuild, signal: AbortSignal): Promise<void> {
  const given = Object.entries(bases).flatMap(([key, image]) => ['--build-arg', `${key}=${image}`]);
  const file = join(source, 'build', 'images', `${name}.Dockerfile`);
  const how = ['--platform', `linux/${architecture}`, ...hostPlatform, ...buildOptions];
  await podman(['build', ...how, ...given, '--file', file, '--tag', tag, source], signal);
}

async function exists(image: string, signal: AbortSignal): Promise<boolean> {
  return await podman(['image', 'exists', image], signal).then(
    () => true,
    () => false,
  );
}

/** A minimal Debian in a file. @param wanted its code name; that of this host if absent */
export async function makeBase(architecture: Architecture, signal: AbortSignal, wanted?: string): Promise<string> {
  const name = `base${wanted === undefined ? '' : `-${wanted}`}${suffix(architecture)}`;
  const archive = join(cache, `${name}.tar`);
  if (existsSync(archive)) return archive;
  const mine = /^VERSION_CODENAME=(\w+)$/m.exec(readFileSync('/etc/os-release', 'utf8'))?.[1] ?? '';
  const folder = join(cache, name);
  rmSync(folder, { recursive: true, force: true });
  // Mirrors have all releases.
  const what = [`--arch=${architecture}`, '--variant=minbase', wanted ?? mine, folder, mirror(mine)];
  await run('debootstrap', what, {}, signal);
  rmSync(join(folder, 'var/cache/apt/archives'), { recursive: true, force: true });
  mkdirSync(join(folder, 'var/cache/apt/archives/partial'), { recursive: true });
  await run('tar', ['-C', folder, '--numeric-owner', '-cf', `${archive}.draft`, '.'], {}, signal);
  renameSync(`${archive}.draft`, archive);
  rmSync(folder, { recursive: true });
  return archive;
}

/** The same with the pinned Node and this host's npm, like the public image of Node, and npm's settings. */
async function makeBuildBase(archive: string, tag: string, signal: AbortSignal): Promise<void> {
  const [mine, links] = [join(cache, 'build-base.tar'), join(cache, 'links')];
  // …/npm/bin/npm-cli.js, through any links.
  const npmFolder = dirname(dirname(realpathSync((await run('sh', ['-c', 'command -v npm'], {}, signal)).trim())));
  const registry = (await run('npm', ['config', 'get', 'registry'], {}, signal)).trim();
  copyFileSync(archive, mine);
  rmSync(links, { recursive: true, force: true });
  mkdirSync(links);
  symlinkSync('../lib/node_modules/npm/bin/npm-cli.js', join(links, 'npm'));
  const append = async (from: string, name: string, to: string) =>
    await run('tar', ['--append', '-f', mine, '-C', from, '--transform', `s,^${name},./usr/local/${to},`, name], {}, signal);
  await append(dirname(process.execPath), 'node', 'bin/node');
  await append(dirname(npmFolder), 'npm', 'lib/node_modules/npm');
  await append(links, 'npm', 'bin/npm');
  const settings = [`npm_config_registry=${registry}`, 'NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt'];
  const changes = settings.flatMap((text) => ['--change', `ENV ${text}`]);
  await podman(['import', ...changes, mine, tag], signal);
  for (const path of [mine, links]) rmSync(path, { recursive: true });
}
