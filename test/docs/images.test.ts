import { accessSync, constants, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

const root = join(import.meta.dirname, '..', '..');
const read = (path: string): string => readFileSync(join(root, path), 'utf8');

it.each(['x64', 'arm64'])('has the prebuilt parts of an image for %s in the lock file', (arch) => {
  const { packages } = JSON.parse(read('package-lock.json')) as { packages: Readonly<Record<string, { version: string }>> };
  for (const name of [`node-linux-${arch}`, `@koromix/koffi-linux-${arch}`]) expect(packages).toHaveProperty([`node_modules/${name}`]);
  expect(packages[`node_modules/@koromix/koffi-linux-${arch}`]?.version).toBe(packages['node_modules/koffi']?.version);
});

it.each(['agent', 'ovs'])('builds the image of %s from given bases', (name) => {
  const lines = read(`build/images/${name}.Dockerfile`).split('\n');
  const from = lines.filter((line) => line.startsWith('FROM '));
  expect(from.length).toBeGreaterThan(1);
  expect(from.filter((line) => !/^FROM (--platform=\$\{(?:BUILD|TARGET)PLATFORM\} )?\$\{(BUILD_)?BASE\}( AS \w+)?$/.test(line))).toEqual(
    [],
  );
});

it.each(['agent', 'seinectl'])(
  'compiles for the image of %s on the architecture of the host: an emulated compiler takes an hour',
  (name) => {
    const [first = ''] = read(`build/images/${name}.Dockerfile`).match(/^FROM .*$/m) ?? [];
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the placeholders are those of a Dockerfile
    expect(first).toBe('FROM --platform=${BUILDPLATFORM} ${BUILD_BASE} AS build');
  },
);

it('starts an OVS that waits for its flows, and cannot be started without', () => {
  const script = read('build/images/ovs-start');
  const code = script
    .split('\n')
    .filter((line) => !line.startsWith('#'))
    .join('\n');
  expect(code).not.toContain('--monitor');
  expect(code.indexOf('flow-restore-wait=true')).toBeLessThan(code.indexOf('\novs-vswitchd '));
  expect(code.match(/^\s*ovs-vswitchd /gm)).toHaveLength(1);
  accessSync(join(root, 'build/images/ovs-start'), constants.X_OK);
});

/** Places of image names: a manifest, a command line, a Dockerfile, an option. */
const imageNames = [
  /\bimage: ['"]?([^\s'",}]+)/g,
  /\b(?:podman|docker) .*\s(?:-t|--tag)[ =]([^\s`]+)/g,
  /--(?:agent|ovs)-image[ =]([^\s`]+)/g,
  /\b(?:podman|docker) (?:push|pull|save .*?) ((?:[^\s`]+\/[^\s`]+[ ]?)+)/g,
  /\bkind load docker-image ((?:[^\s`]+ ?)+)/g,
  /^ARG (?:BUILD_)?BASE=(\S+)/gm,
];

/** A host has a dot, a port, or is `localhost`; `REGISTRY` stands for the reader's. Of docker.io's only the official images. */
const isFromKnownHost = (name: string): boolean =>
  /^(?:REGISTRY|localhost|(?!docker\.io\/)[\w-]+\.[\w.-]+|docker\.io\/library)(?::\d+)?\//.test(name);

it('names no image that a registry of others could serve', () => {
  const places = ['.', 'docs', 'docs/installation', 'build/manifests', 'build/images'].flatMap((folder) =>
    readdirSync(join(root, folder), { withFileTypes: true })
      .filter((entry) => entry.isFile() && (entry.name.endsWith('.md') || folder.startsWith('build')))
      .map(({ name }) => join(folder, name)),
  );
  const foreign = places.flatMap((path) => {
    const text = read(path);
    const names = imageNames.flatMap((pattern) => Array.from(text.matchAll(pattern), ([, found = '']) => found.trim().split(/\s+/)).flat());
    return names
      .filter((name) => /^[\w./:-]+$/.test(name) && name !== 'NAME' && !name.startsWith('options.') && !isFromKnownHost(name))
      .map((name) => `${path}: ${name}`);
  });
  expect(foreign).toEqual([]);
});

it("names its own images with the package's version", () => {
  const { version } = JSON.parse(read('package.json')) as { version: string };
  const own = [
    'docs/getting-started.md',
    'docs/installation/images.md',
    'docs/installation/manifest.md',
    'docs/installation/upgrade.md',
    'docs/installation/uninstall.md',
    'build/images/agent.Dockerfile',
    'build/images/ovs.Dockerfile',
    'build/manifests/seine.yaml',
  ].flatMap((path) =>
    Array.from(read(path).matchAll(/(?:seine\.invalid|REGISTRY\/seine)\/(?:agent|ovs):([\w.-]+)/g), ([name, found]) => ({
      path,
      name,
      found,
    })),
  );
  expect(own.length).toBeGreaterThan(6);
  expect(own.filter(({ found }) => found !== version)).toEqual([]);
});
