import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

const root = join(import.meta.dirname, '..', '..');
const page = readFileSync(join(root, 'docs', 'contributing', 'dependencies.md'), 'utf8');

/** Names in backquotes at the start of a table row, in the section with this heading. */
function listed(heading: string): string[] {
  const section = page.split(/^## /m).find((text) => text.startsWith(heading)) ?? '';
  return Array.from(section.matchAll(/^\| (`[^|]+`) \|/gm), ([, cell = '']) =>
    Array.from(cell.matchAll(/`([^`]+)`/g), ([, name = '']) => name),
  )
    .flat()
    .toSorted();
}

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly workspaces: readonly string[];
  readonly dependencies: Readonly<Record<string, string>>;
  readonly devDependencies: Readonly<Record<string, string>>;
  readonly optionalDependencies: Readonly<Record<string, string>>;
}

const manifestOf = (folder: string): Partial<Manifest> => JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8'));
const manifest = manifestOf('.');
const workspaces = (manifest.workspaces ?? []).map(manifestOf);
/** Packages of this repository, which depend on each other without being installed from anywhere. */
const local = Object.fromEntries(workspaces.map(({ name = '' }) => [name, true]));
const { dependencies = {}, devDependencies = {}, optionalDependencies = {} } = manifest;

it('names every npm package that the product runs on, and no other', () => {
  expect(listed('npm, at run time')).toEqual(Object.keys(dependencies).toSorted());
});

it('names every npm package that the site of documents is built with, and no other', () => {
  expect(listed('npm, for the site of documents')).toEqual(Object.keys(manifestOf('site').devDependencies ?? {}).toSorted());
});

it('names every npm package that only a package of its own within this repository runs on, and no other', () => {
  const theirs = new Set(workspaces.flatMap((workspace) => Object.keys(workspace.dependencies ?? {})));
  expect(listed('npm, in the lab')).toEqual([...theirs].filter((name) => !(name in dependencies) && !(name in local)).toSorted());
});

it('names every npm package for builds and tests, and no other', () => {
  const own = workspaces.flatMap((workspace) => Object.keys(workspace.devDependencies ?? {}));
  expect(listed('npm, to build and test')).toEqual(
    [...Object.keys(devDependencies), ...Object.keys(optionalDependencies), ...own].toSorted(),
  );
});

it('has one version of each package for all', () => {
  const all = [manifest, ...workspaces].flatMap((each) => Object.entries({ ...each.dependencies, ...each.devDependencies }));
  const versions = new Map<string, Set<string>>();
  for (const [name, version] of all) versions.set(name, (versions.get(name) ?? new Set()).add(version));
  expect([...versions].filter(([, each]) => each.size > 1)).toEqual([]);
});

it('has one version of the product and its libraries', () => {
  for (const { name, version } of ['.', 'src/ovsdb', 'src/openflow'].map(manifestOf))
    expect({ name, version }).toEqual({ name, version: manifest.version });
});

it('names every Debian package that the set-up installs, and no other', async () => {
  const listsOfPackages = (await import(join(root, 'build', 'setup', 'debian.mjs'))) as Readonly<Record<string, unknown>>;
  const lists = Object.entries(listsOfPackages).flatMap(([name, list]) =>
    /^packages$|Packages$/.test(name) && typeof list === 'object' ? [list] : [],
  );
  const downloaded = ['kubernetes-client', 'linux-image-amd64', 'linux-image-arm64'];
  const wanted = Object.keys(Object.assign({}, ...lists));
  expect(listed('Debian')).toEqual([...wanted, ...downloaded].toSorted());
});

it('pins every version', () => {
  const versions = [manifest, ...workspaces].flatMap((each) =>
    Object.entries({ ...each.dependencies, ...each.devDependencies, ...each.optionalDependencies }),
  );
  expect(versions.filter(([name, version]) => !(name in local) && !/^\d+\.\d+\.\d+$/.test(version))).toEqual([]);
});
