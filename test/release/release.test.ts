import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { withEmulation } from '../../build/arm64/emulation.mjs';
import { builtProgram } from '../../build/go/programs.mjs';
import { builtHelm } from '../../build/helm/program.mjs';
import type { ReleaseRecord } from '../../build/release/record.ts';
import { packageRoot } from '../../lab/machine/installation.ts';
import { run, runAnyway } from '../../lab/machine/process.ts';
import { commandsOf } from '../kubernetes/page-commands.ts';
import { type Architecture, buildOptions, makeBases, podman, releaseStorage, shellEnvironment } from '../runtime/image-builder.ts';
import { type LocalRegistry, startLocalRegistry } from '../support/local-registry.ts';

/*
 * The steps of a release of the commit that is checked out, by the scripts of the workflow, on a registry on loopback: images of both
 * architectures, manifest and chart with digests, seinectl, signatures with a local key. Then the commands of the page verify what was pushed.
 *
 * SEINE_RELEASE_ARCH=amd64 leaves out the emulated architecture.
 */

const page = 'docs/installation/verify-images.md';
const architectures = (process.env['SEINE_RELEASE_ARCH'] ?? 'amd64,arm64').split(',') as Architecture[];
const own: Architecture = process.arch === 'arm64' ? 'arm64' : 'amd64';
const folder = mkdtempSync(join(tmpdir(), 'seine-release-'));
const out = join(folder, 'out');
const files = join(out, 'files');
const signal = AbortSignal.timeout(7_200_000);
const { version } = JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')) as { readonly version: string };

let registry: LocalRegistry;
let tools: string;
let environment: Readonly<Record<string, string>>;

beforeAll(async () => {
  registry = await startLocalRegistry(join(folder, 'registry'), {}, signal);
  tools = await toolFolder();
  environment = { ...shellEnvironment(), COSIGN_PASSWORD: '', PATH: `${tools}:${process.env['PATH']}` };
  await run('cosign', ['generate-key-pair', '--output-key-prefix', join(folder, 'cosign')], { env: environment }, signal);
  await run('cosign', ['generate-key-pair', '--output-key-prefix', join(folder, 'other')], { env: environment }, signal);
  if (architectures.includes('arm64')) await withEmulation(makeAllBases);
  else await makeAllBases();
  await step('images', ...pushOptions(), ...buildOptionsOfStep());
  await step('manifest', ...pushOptions());
  await step('seinectl', ...buildOptionsOfStep());
  await step('sign', ...pushOptions(), '--key', join(folder, 'cosign.key'));
}, 7_200_000);

afterAll(async () => {
  await registry.close();
  const names = architectures.flatMap((arch) => ['agent', 'ovs'].map((name) => `localhost/seine-release/${arch}/${name}:${version}`));
  await podman(['image', 'rm', '--force', '--ignore', ...names], signal);
  await releaseStorage(AbortSignal.timeout(60_000));
  rmSync(folder, { recursive: true });
});

/** Programs of the page, by their names. */
async function toolFolder(): Promise<string> {
  const place = join(folder, 'tools');
  const programs = { crane: await builtProgram('crane'), cosign: await builtProgram('cosign'), helm: await builtHelm() };
  execFileSync('mkdir', [place]);
  for (const [name, path] of Object.entries(programs)) execFileSync('ln', ['-s', path, join(place, name)]);
  return place;
}

/** Debian for each architecture, under names that differ in the architecture alone. */
async function makeAllBases(): Promise<void> {
  for (const architecture of architectures) {
    const agent = await makeBases('agent', signal, { architecture });
    const ovs = await makeBases('ovs', signal, { architecture });
    for (const [name, base] of [
      ['base', agent.BASE],
      ['ovs-base', ovs.BASE],
    ] as const)
      await podman(['tag', base, `localhost/seine-release/${name}:${architecture}`], signal);
    if (architecture === own) await podman(['tag', agent.BUILD_BASE ?? '', `localhost/seine-release/build-base:${own}`], signal);
  }
}

const pushOptions = () => ['--registry', `${registry.address}/seine`, '--plain-http'];

function buildOptionsOfStep(): string[] {
  const bases = ['base', 'ovs-base', 'build-base'].flatMap((name) => [`--${name}`, `localhost/seine-release/${name}:{arch}`]);
  return ['--arch', architectures.join(','), ...bases, '--', ...buildOptions];
}

/** Runs a step of the release. @returns what it printed */
async function step(name: string, ...args: readonly string[]): Promise<string> {
  const [own, more] = [args, args.indexOf('--')];
  const given = more === -1 ? [...own, '--out', out] : [...own.slice(0, more), '--out', out, ...own.slice(more)];
  return await run(process.execPath, [join(packageRoot, 'build', 'release', `${name}.ts`), ...given], { env: environment }, signal);
}

const record = () => JSON.parse(readFileSync(join(out, 'release.json'), 'utf8')) as ReleaseRecord;

function imageOf(name: 'agent' | 'ovs') {
  const found = record().images[name];
  if (found === undefined) throw new Error(`no image ${name} in release.json`);
  return found;
}

/** Runs a command of the page for an image of this registry. */
async function typed(command: string, digest = imageOf('agent').digest) {
  const here = command
    .replaceAll('REGISTRY/seine', `${registry.address}/seine`)
    .replaceAll('DIGEST', digest)
    .replaceAll('cosign.pub', join(folder, 'cosign.pub'));
  return await runAnyway('bash', ['-eo', 'pipefail', '-c', `cd ${files}; ${here}`], { env: environment }, signal);
}

const commandWith = (section: string, part: string) => {
  const found = commandsOf(page, section).find((command) => command.includes(part));
  if (found === undefined) throw new Error(`${page}: ${section} has no command with ${part}`);
  return found;
};

describe('the images', () => {
  it.each(['agent', 'ovs'] as const)('of %s are one name for all architectures, with the content that was built', async (name) => {
    const { repository, digest, platforms } = imageOf(name);
    expect(Object.keys(platforms).toSorted()).toEqual(architectures.toSorted());
    await run('crane', ['validate', '--insecure', '--remote', `${repository}@${digest}`], { env: environment }, signal);
    for (const architecture of architectures) {
      const config = JSON.parse(
        await run(
          'crane',
          ['config', '--insecure', '--platform', `linux/${architecture}`, `${repository}@${digest}`],
          { env: environment },
          signal,
        ),
      ) as { readonly architecture: string };
      expect(config.architecture).toBe(architecture);
    }
  });

  it('of the agent have at most 120 MB, compressed', () => {
    for (const { compressedBytes } of Object.values(imageOf('agent').platforms)) expect(compressedBytes).toBeLessThanOrEqual(120e6);
  });

  it('are not pushed again under the same name: a second run finds them, another image is refused', async () => {
    const before = record();
    expect(await step('images', ...pushOptions(), ...buildOptionsOfStep())).toContain(`already there: ${registry.address}/seine/agent@`);
    expect(record().images).toEqual(before.images);
    const moved = `${registry.address}/seine/ovs:${version}`;
    const { repository, digest } = imageOf('ovs');
    await run('crane', ['tag', '--insecure', `${registry.address}/seine/agent:${version}`, 'kept'], { env: environment }, signal);
    await run('crane', ['copy', '--insecure', `${registry.address}/seine/agent:kept`, moved], { env: environment }, signal);
    try {
      await expect(step('images', ...pushOptions(), ...buildOptionsOfStep())).rejects.toThrow(
        `${moved} for linux/amd64 is in the registry as sha256:`,
      );
    } finally {
      await run('crane', ['copy', '--insecure', `${repository}@${digest}`, moved], { env: environment }, signal);
    }
  });
});

describe('manifest and chart', () => {
  const images = () => [
    `${registry.address}/seine/agent@${imageOf('agent').digest}`,
    `${registry.address}/seine/ovs@${imageOf('ovs').digest}`,
  ];
  const namedIn = (manifest: string) => new Set(Array.from(manifest.matchAll(/^ *(?:- )?image: "?([^"\s]+)"?$/gm), ([, name]) => name));

  it('name images by the digests that were pushed', async () => {
    const manifest = readFileSync(join(files, 'seine.yaml'), 'utf8');
    expect(parseAllDocuments(manifest).flatMap(({ errors }) => errors)).toEqual([]);
    expect(namedIn(manifest)).toEqual(new Set(images()));
    const [agent] = images();
    expect(namedIn(readFileSync(join(files, 'uninstall.yaml'), 'utf8'))).toEqual(new Set([agent]));
    const chart = `oci://${registry.address}/seine/charts/seine`;
    const rendered = await run('helm', ['template', 'seine', chart, '--version', version, '--plain-http'], { env: environment }, signal);
    expect(namedIn(rendered)).toEqual(new Set(images()));
  });

  it('are pushed as one artefact, whose digest is in the record', async () => {
    const reference = `${registry.address}/seine/charts/seine:${version}`;
    const digest = (await run('crane', ['digest', '--insecure', reference], { env: environment }, signal)).trim();
    expect(record().chart).toEqual({ repository: `${registry.address}/seine/charts/seine`, digest });
    await step('manifest', ...pushOptions());
    expect(record().chart?.digest).toBe(digest);
  });
});

describe('seinectl', () => {
  /** `e_machine` of elf(5). */
  const machines = { amd64: 62, arm64: 183 };

  it.each(architectures)('is one file for %s', (architecture) => {
    const file = readFileSync(join(files, `seinectl-linux-${architecture}`));
    expect(file.readUInt16LE(18)).toBe(machines[architecture]);
    expect(file.length).toBeGreaterThan(50e6);
  });

  it.each(architectures)('starts on %s', async (architecture) => {
    const file = join(files, `seinectl-linux-${architecture}`);
    const printed = async () => await run(file, ['--version'], {}, signal);
    expect(await (architecture === own ? printed() : withEmulation(printed))).toBe(`${version}\n`);
  });
});

describe('the page of verification', () => {
  const digests = () => [imageOf('agent').digest, ...Object.values(imageOf('agent').platforms).map(({ digest }) => digest)];

  it('has commands that find the digests', async () => {
    const [all = '', one = ''] = commandsOf(page, 'Digests');
    const here = (command: string) => typed(command.replace('crane digest', 'crane digest --insecure'));
    expect((await here(all)).stdout.trim()).toBe(imageOf('agent').digest);
    expect((await here(one)).stdout.trim()).toBe(imageOf('agent').platforms.amd64?.digest);
  });

  it('has commands that verify image, chart and files with the key', async () => {
    for (const digest of digests())
      expect(await typed(commandWith('Signatures', 'cosign verify --key'), digest)).toMatchObject({ code: 0 });
    expect(await typed(commandWith('Signatures', 'charts/seine'), record().chart?.digest)).toMatchObject({ code: 0 });
    expect(await typed(commandWith('Signatures', 'verify-blob'))).toMatchObject({ code: 0 });
    const { code, stdout } = await typed(commandWith('Signatures', 'sha256sum'));
    expect(code).toBe(0);
    const named = stdout.split('\n').flatMap((line) => line.match(/^(\S+): OK$/)?.[1] ?? []);
    expect(named).toEqual(
      readdirSync(files)
        .filter((name) => !name.startsWith('SHA256SUMS'))
        .toSorted(),
    );
  });

  it('has commands that read SBOM and provenance, signed', async () => {
    for (const { digest } of Object.values(imageOf('agent').platforms)) {
      expect(await typed(commandWith('SBOM and provenance', '--type cyclonedx'), digest)).toMatchObject({ code: 0 });
      const sbom = JSON.parse(readFileSync(join(files, 'sbom.cdx.json'), 'utf8')) as {
        readonly components: readonly { readonly name: string }[];
      };
      rmSync(join(files, 'sbom.cdx.json'));
      expect(sbom).toMatchObject({ bomFormat: 'CycloneDX' });
      expect(sbom.components.map(({ name }) => name)).toEqual(expect.arrayContaining(['libnftables1', 'koffi', 'zod']));
      const { code, stdout } = await typed(commandWith('SBOM and provenance', '--type slsaprovenance1'), digest);
      expect(code).toBe(0);
      const commit = execFileSync('git', ['-C', packageRoot, 'rev-parse', 'HEAD'], { encoding: 'utf8' }).trim();
      expect(JSON.parse(stdout)).toContainEqual({ name: 'source', digest: { gitCommit: commit } });
    }
  });

  it('names what cosign prints for an image that is not signed, another key, and the digest of both architectures', async () => {
    const verify = commandWith('Signatures', 'cosign verify --key');
    const plain = `${registry.address}/seine/plain`;
    await run(
      'crane',
      ['copy', '--insecure', `${registry.address}/seine/agent@${imageOf('agent').digest}`, `${plain}:1`],
      { env: environment },
      signal,
    );
    const unsigned = await typed(verify.replace('seine/agent', 'seine/plain'));
    const foreign = await typed(verify.replace('cosign.pub', join(folder, 'other.pub')));
    const index = await typed(commandWith('SBOM and provenance', '--type cyclonedx').split('|')[0] ?? '');
    const text = readFileSync(join(packageRoot, page), 'utf8');
    const messages = Array.from(text.matchAll(/^\| `([^`]+)` \|/gm), ([, message]) => message).filter((each) => each?.includes(' '));
    expect([unsigned.code, foreign.code, index.code].every((code) => code !== 0)).toBe(true);
    for (const [at, { stderr }] of [unsigned, foreign, index].entries()) expect(stderr).toContain(messages[at]);
  });

  it('refuses a file that was changed after it was signed', async () => {
    const file = join(files, 'seine.yaml');
    const content = readFileSync(file);
    writeFileSync(file, `${content}# changed\n`);
    try {
      expect((await typed(commandWith('Signatures', 'sha256sum'))).code).toBe(1);
    } finally {
      writeFileSync(file, content);
    }
    expect(existsSync(file)).toBe(true);
  });
});

it('accepts both workflow files, by actionlint', async () => {
  const actionlint = await builtProgram('actionlint');
  const workflows = ['ci.yml', 'release.yml'].map((name) => join(packageRoot, '.github', 'workflows', name));
  await run(actionlint, ['-shellcheck=', ...workflows], {}, signal);
});
