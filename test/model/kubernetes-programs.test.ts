import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { kubernetesVersion, programFolder, programs } from '../../build/kubernetes/programs.mjs';

it('keeps programs outside of the tree, by version and inputs', () => {
  const folder = programFolder({ XDG_CACHE_HOME: '/cache' });
  expect(folder).toMatch(new RegExp(`^/cache/seine/kubernetes/${kubernetesVersion()}-[0-9a-f]{12}$`));
  expect(programFolder({ XDG_CACHE_HOME: '/cache' })).toBe(folder);
  expect(programFolder({})).not.toContain(import.meta.dirname);
});

it('builds no package that its module does not keep', () => {
  for (const { name, folder, path } of programs) {
    if (path === '.') continue;
    expect(readFileSync(join(folder, 'go.mod'), 'utf8'), name).toMatch(new RegExp(`^(tool |\\t)${path}$`, 'm'));
  }
});

it('pins the staging modules of the same version', () => {
  const [, minor, patch] = kubernetesVersion().split('.');
  const { folder = '' } = programs.find(({ name }) => name === 'kubelet') ?? {};
  const staged = [...readFileSync(join(folder, 'go.mod'), 'utf8').matchAll(/^\t(k8s\.io\/\S+) => \1 v(\S+)$/gm)];
  expect(staged.length).toBeGreaterThan(20);
  expect(new Set(staged.map(([, , version]) => version))).toEqual(new Set([`0.${minor}.${patch}`]));
});

it('links the version into the programs that report it', () => {
  const { args = [] } = programs.find(({ name }) => name === 'kubelet') ?? {};
  expect(args.join(' ')).toContain(`-X k8s.io/component-base/version.gitVersion=v${kubernetesVersion()}`);
});
