import { accessSync, constants, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

const root = join(import.meta.dirname, '..', '..');
const read = (path: string): string => readFileSync(join(root, path), 'utf8');

it.each(['x64', 'arm64'])('has the prebuilt parts of an image for %s in the lock file', (arch) => {
  const { packages } = JSON.parse(read('package-lock.json')) as { packages: Readonly<Record<string, { version: string }>> };
  for (const name of [`node-linux-${arch}`, `@koromix/koffi-linux-${arch}`]) expect(packages).toHaveProperty([`node_modules/${name}`]);
  expect(packages[`node_modules/@koromix/koffi-linux-${arch}`]?.version).toBe(packages['node_modules/koffi']?.version);
});

it.each(['agent', 'ovs'])('builds the image of %s from bases that are given', (name) => {
  const lines = read(`build/images/${name}.Dockerfile`).split('\n');
  const from = lines.filter((line) => line.startsWith('FROM '));
  expect(from.length).toBeGreaterThan(1);
  expect(from.filter((line) => !/^FROM \$\{(BUILD_)?BASE\}( AS \w+)?$/.test(line))).toEqual([]);
});

it('starts a switch that waits for its flows, and nobody starts it without', () => {
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
