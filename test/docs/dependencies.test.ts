import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

const root = join(import.meta.dirname, '..', '..');
const page = readFileSync(join(root, 'docs', 'dependencies.md'), 'utf8');

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
  readonly dependencies: Readonly<Record<string, string>>;
  readonly devDependencies: Readonly<Record<string, string>>;
  readonly optionalDependencies: Readonly<Record<string, string>>;
}

const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Manifest;

it('names every npm package that runs with us, and no other', () => {
  expect(listed('npm, at run time')).toEqual(Object.keys(manifest.dependencies).toSorted());
});

it('names every npm package that builds and tests us, and no other', () => {
  expect(listed('npm, to build and test')).toEqual(
    [...Object.keys(manifest.devDependencies), ...Object.keys(manifest.optionalDependencies)].toSorted(),
  );
});

it('names every Debian package that the set-up installs, and no other', async () => {
  const { packages, kernelDemoPackages, kernelTestPackages, runtimePackages, arm64Packages } = (await import(
    join(root, 'build', 'setup', 'debian.mjs')
  )) as {
    packages: Readonly<Record<string, string>>;
    kernelDemoPackages: Readonly<Record<string, string>>;
    kernelTestPackages: Readonly<Record<string, string>>;
    runtimePackages: Readonly<Record<string, string>>;
    arm64Packages: Readonly<Record<string, string>>;
  };
  const downloaded = ['kubernetes-client', 'linux-image-amd64', 'linux-image-arm64'];
  const wanted = Object.keys({ ...packages, ...kernelDemoPackages, ...kernelTestPackages, ...runtimePackages, ...arm64Packages });
  expect(listed('Debian')).toEqual([...wanted, ...downloaded].toSorted());
});

it('pins every version', () => {
  const versions = Object.values({ ...manifest.dependencies, ...manifest.devDependencies, ...manifest.optionalDependencies });
  expect(versions.filter((version) => !/^\d+\.\d+\.\d+$/.test(version))).toEqual([]);
});
