import { globSync, readFileSync } from 'node:fs';
import { join, matchesGlob } from 'node:path';
import { expect, it } from 'vitest';
import { otherProjects, projectsFor } from '../../build/test-run/other-projects.mjs';

const root = join(import.meta.dirname, '../..');
const configuration = readFileSync(join(root, 'vitest.config.ts'), 'utf8');
const projects = [...configuration.matchAll(/^ +name: '(\w+)',$/gm)].map(([, name]) => name);

it('runs by `npm test` the projects for which its set-up installs everything, and no others', () => {
  expect(projects.filter((name) => !otherProjects.includes(name ?? ''))).toEqual([
    'unit',
    'fuzz',
    'integration',
    'e2e',
    'waiting',
    'emulated',
  ]);
  expect(otherProjects.filter((name) => !projects.includes(name))).toEqual([]);
});

it.each(['export', 'ui', 'ovs', 'kubernetes', 'release', 'runtime', 'upgrade'])('runs files of test/%s that are named', (folder) => {
  expect(projectsFor([`test/${folder}/a.test.ts`])).toEqual([]);
  expect(projectsFor(['test/e2e/a.test.ts'])).toContain(`--project=!${folder}`);
});

it('has a project for each file of tests but those that have a configuration of their own', () => {
  const included = [...configuration.matchAll(/'([^']+\.test\.ts)'/g)].map(([, glob = '']) => glob);
  const files = globSync(['src/**/*.test.ts', 'lab/**/*.test.ts', 'test/**/*.test.ts'], { cwd: root });
  expect(files.length).toBeGreaterThan(300);
  const others = files.filter((file) => !included.some((glob) => matchesGlob(file, glob)));
  expect(others.filter((file) => !/^test\/(?:kernel|arm64)\//.test(file))).toEqual([]);
});
