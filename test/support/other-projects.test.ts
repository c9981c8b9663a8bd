import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { otherProjects, projectsFor } from '../../build/test-run/other-projects.mjs';

const configuration = readFileSync(join(import.meta.dirname, '../../vitest.config.ts'), 'utf8');
const projects = [...configuration.matchAll(/^ +name: '(\w+)',$/gm)].map(([, name]) => name);

it('runs by `npm test` the projects for which its set-up installs everything, and no others', () => {
  expect(projects.filter((name) => !otherProjects.includes(name ?? ''))).toEqual(['unit', 'integration', 'e2e', 'waiting', 'emulated']);
  expect(otherProjects.filter((name) => !projects.includes(name))).toEqual([]);
});

it.each(['export', 'ui', 'ovs', 'kubernetes', 'release', 'runtime', 'upgrade'])('runs files of test/%s that are named', (folder) => {
  expect(projectsFor([`test/${folder}/a.test.ts`])).toEqual([]);
  expect(projectsFor(['test/e2e/a.test.ts'])).toContain(`--project=!${folder}`);
});
