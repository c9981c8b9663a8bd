import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { kubernetesVersion } from '../../build/kubernetes/programs.mjs';
import { releases } from '../support/releases.ts';

const root = join(import.meta.dirname, '..', '..');
const page = readFileSync(join(root, 'docs', 'versions.md'), 'utf8');
const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { readonly scripts: Readonly<Record<string, string>> };

/** Rows of the table below a heading, without its head. */
function rowsOf(heading: string): readonly (readonly string[])[] {
  const section = page.split(/^## /m).find((text) => text.startsWith(heading)) ?? '';
  const lines = section.split('\n').filter((line) => line.startsWith('| '));
  return lines.slice(1).map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

const runs = rowsOf('What was run').map(([part = '', version = '', command = '', last = '']) => ({ part, version, command, last }));

it('names for each part what was run, by a command that there is, on a day', () => {
  expect(runs.length).toBeGreaterThan(8);
  const wrong = runs.filter(({ part, version, command, last }) => {
    const [, script = 'none'] = /^`npm (?:run )?([\w:]+)`$/.exec(command) ?? [];
    return part === '' || version === '' || !(script in scripts) || !/^20\d\d-[01]\d-[0-3]\d$/.test(last);
  });
  expect(wrong).toEqual([]);
});

it('has no run from before the first release', () => {
  const first = releases().at(-1)?.date ?? '';
  expect(runs.filter(({ last }) => last < first)).toEqual([]);
});

it('says of Kubernetes which version is pinned, and of releases two that are on record', () => {
  const of = (name: string): string => runs.find(({ part }) => part === name)?.version ?? '';
  expect(of('Kubernetes')).toContain(kubernetesVersion());
  const recorded = releases().filter(({ version }) => of('release before').includes(version));
  expect(recorded).toHaveLength(2);
});

it('has a row for each suite that runs on what it names', () => {
  const suites = Object.keys(scripts).filter((name) => /^test:(kernel|arm64|images|kubernetes|ovs|runtime|upgrade)$/.test(name));
  expect(suites).toHaveLength(7);
  expect(suites.filter((name) => !runs.some(({ command }) => command === `\`npm run ${name}\``))).toEqual([]);
});
