import { appendFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { packageRoot } from '../../lab/machine/installation.ts';
import { run, runAnyway } from '../../lab/machine/process.ts';
import { commandOf, commandsOf } from '../kubernetes/page-commands.ts';
import { type Bases, buildOptions, makeBases, podman, releaseStorage, shellEnvironment } from '../runtime/image-builder.ts';

/*
 * The images of the checked-out commit, by the command of the page, each layer built twice: in other folders, at other times, by users with
 * other masks. Files outside of the commit are ignored.
 */

const page = 'docs/installation/images.md';
const heading = 'Reproducible builds';
const images = ['agent', 'ovs'];
const signal = AbortSignal.timeout(3_000_000);
const folder = mkdtempSync(join(tmpdir(), 'seine-images-'));
const registries = ['localhost/seine-first', 'localhost/seine-second'];

interface Dependency {
  readonly uri?: string;
  readonly name?: string;
  readonly digest?: Readonly<Record<string, string>>;
  readonly annotations?: { readonly as: string };
}

interface Statement {
  readonly _type: string;
  readonly predicateType: string;
  readonly subject: readonly { readonly name: string; readonly digest: { readonly sha256: string } }[];
  readonly predicate: {
    readonly buildDefinition: { readonly resolvedDependencies: readonly Dependency[] };
    readonly runDetails: { readonly byproducts: readonly Dependency[] };
  };
}

let bases: Readonly<Record<string, Bases>>;

beforeAll(async () => {
  bases = { agent: await makeBases('agent', signal), ovs: await makeBases('ovs', signal) };
  for (const [at, registry] of registries.entries()) await built(registry, at === 0 ? '022' : '077');
}, 3_000_000);

afterAll(async () => {
  rmSync(folder, { recursive: true });
  for (const registry of registries) await podman(['image', 'rm', '--force', ...images.map((image) => nameOf(registry, image))], signal);
  await releaseStorage(AbortSignal.timeout(60_000));
});

/** Types the command of the page, with the additions for this host. */
async function built(registry: string, mask: string): Promise<void> {
  const command = commandOf(page, heading, 'npm run build:images')
    .replace('REGISTRY/seine', registry)
    .replace(/ --out \S+/, ` --out ${outOf(registry)}`);
  const here = command.replace('npm run build:images --', `${process.execPath} ${join(packageRoot, 'build', 'images', 'build.mjs')}`);
  const { agent, ovs } = bases;
  const given = `--base ${agent?.BASE} --ovs-base ${ovs?.BASE} --build-base ${agent?.BUILD_BASE} --no-cache -- ${buildOptions.join(' ')}`;
  await run('sh', ['-ec', `umask ${mask}; ${here} ${given}`], { env: shellEnvironment() }, signal);
}

function baseOf(image: string): string {
  return bases[image]?.BASE ?? '';
}

function outOf(registry: string): string {
  return join(folder, registry.replace('/', '-'));
}

function nameOf(registry: string, image: string): string {
  const { version } = JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')) as { readonly version: string };
  return `${registry}/${image}:${version}`;
}

function statementOf(registry: string, image: string): Statement {
  return JSON.parse(readFileSync(join(outOf(registry), `${image}.provenance.json`), 'utf8')) as Statement;
}

async function inImage(image: string, ...command: readonly string[]): Promise<string> {
  return await podman(['run', '--rm', '--network', 'none', nameOf(registries[0] ?? '', image), ...command], signal);
}

it.each(images)('builds the image of %s twice, equal layer by layer', (image) => {
  const [first, second] = registries.map((registry) => statementOf(registry, image));
  expect(second?.predicate.runDetails.byproducts).toEqual(first?.predicate.runDetails.byproducts);
  expect(second?.subject[0]?.digest).toEqual(first?.subject[0]?.digest);
  expect(first?.predicate.runDetails.byproducts.length).toBeGreaterThan(3);
});

it.each(images)('leaves nothing in the image of %s that shows its build time', async (image) => {
  const left = await inImage(image, 'sh', '-c', 'find /var/log /var/lib/seine /var/cache/ldconfig /tmp -type f 2>/dev/null; true');
  const fromBase = await podman(
    ['run', '--rm', '--network', 'none', baseOf(image), 'find', '/var/log', '/var/cache/ldconfig', '/tmp', '-type', 'f'],
    signal,
  );
  expect(left.split('\n').filter((file) => !fromBase.split('\n').includes(file))).toEqual([]);
  if (image === 'ovs') expect(await inImage(image, 'cat', '/etc/shadow')).not.toMatch(/^[^:]*:[!*]+:\d/m);
});

it.each(images)('names the source of %s, by the digest that podman and containerd show', async (image) => {
  const [registry = ''] = registries;
  const { _type, predicateType, subject, predicate } = statementOf(registry, image);
  expect([_type, predicateType]).toEqual(['https://in-toto.io/Statement/v1', 'https://slsa.dev/provenance/v1']);
  const show = commandOf(page, heading, 'podman image inspect').replace(/REGISTRY\/seine\/agent:\S+/, nameOf(registry, image));
  const id = (await run('sh', ['-ec', show], { env: shellEnvironment() }, signal)).trim();
  expect(subject).toEqual([{ name: nameOf(registry, image), digest: { sha256: id } }]);
  const { resolvedDependencies: from } = predicate.buildDefinition;
  const commit = (await run('git', ['-C', packageRoot, 'rev-parse', 'HEAD'], {}, signal)).trim();
  expect(from).toContainEqual({ name: 'source', digest: { gitCommit: commit } });
  const digest = JSON.parse(await podman(['image', 'inspect', '--format', '{{json .Digest}}', baseOf(image)], signal)) as string;
  expect(from).toContainEqual({ uri: baseOf(image), digest: { sha256: digest.replace('sha256:', '') }, annotations: { as: 'BASE' } });
  const packages = (as: string) => from.filter(({ annotations }) => annotations?.as === as).map(({ uri }) => uri?.replace(/@.*/, ''));
  expect(packages('in the image')).toContain(`pkg:deb/debian/${image === 'agent' ? 'libnftables1' : 'openvswitch-switch'}`);
  if (image === 'agent') expect(packages('built with')).toContain('pkg:deb/debian/gcc');
});

it('has the plugins from Debian packages in the list of parts', async () => {
  const { components } = JSON.parse(await inImage('agent', 'cat', '/usr/share/seine/sbom.cdx.json')) as {
    readonly components: readonly { readonly name: string }[];
  };
  expect(components.map(({ name }) => name)).toContain('containernetworking-plugins');
});

/** The glibc of Debian 12 and Enterprise Linux 9, whatever Debian the image is of. */
const oldestLibraryOfNodes = 34;

it('puts no plugin on a node that needs a newer C library than nodes have', async () => {
  const output = await inImage('agent', 'sh', '-c', "cd /opt/seine/cni && grep -aoE 'GLIBC_2[.][0-9]+' * || true; ls");
  expect(output).toMatch(/^seine$/m);
  const newer = [...output.matchAll(/^(\S+):GLIBC_2\.(\d+)$/gm)].filter(([, , minor]) => Number(minor) > oldestLibraryOfNodes);
  expect(new Set(newer.map(([line]) => line))).toEqual(new Set());
});

it('is signed and checked by the commands of the page, and a modified statement is rejected', async () => {
  const [registry = ''] = registries;
  const here = (command: string) =>
    command.replaceAll(/REGISTRY\/seine\/agent:[\d.]+/g, nameOf(registry, 'agent')).replaceAll('images/', `${outOf(registry)}/`);
  const output = await run(
    'sh',
    ['-ec', [`cd ${folder}`, ...commandsOf(page, 'Signing').map(here)].join('\n')],
    { env: shellEnvironment() },
    signal,
  );
  expect(output).toMatch(/Verified OK\s+this is the image/);
  appendFileSync(join(outOf(registry), 'agent.provenance.json'), ' ');
  const { code } = await runAnyway(
    'sh',
    ['-ec', `cd ${folder}\n${here(commandOf(page, 'Signing', 'openssl dgst -sha256 -verify'))}`],
    {},
    signal,
  );
  expect(code).not.toBe(0);
});
