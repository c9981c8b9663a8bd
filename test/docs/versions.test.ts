import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { kubernetesVersion } from '../../build/kubernetes/programs.mjs';
import { releases } from '../support/releases.ts';

const root = join(import.meta.dirname, '..', '..');
const record = readFileSync(join(root, 'docs', 'records', 'compatibility.md'), 'utf8');
const page = readFileSync(join(root, 'docs', 'feature-matrix.md'), 'utf8');
const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { readonly scripts: Readonly<Record<string, string>> };

/** Rows of the table below a heading, without its head. */
function rowsOf(text: string, heading: string): readonly (readonly string[])[] {
  const section = text.split(/^## /m).find((part) => part.startsWith(heading)) ?? '';
  const lines = section.split('\n').filter((line) => line.startsWith('| '));
  return lines.slice(1).map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

const runs = rowsOf(record, 'Runs').map(([part = '', version = '', command = '', last = '']) => ({ part, version, command, last }));

it('names version, existing command and date of each recorded run', () => {
  expect(runs.length).toBeGreaterThan(8);
  const wrong = runs.filter(({ part, version, command, last }) => {
    const [, script = 'none'] = /^`npm (?:run )?([\w:]+)`$/.exec(command) ?? [];
    return part === '' || version === '' || !(script in scripts) || !/^20\d\d-[01]\d-[0-3]\d$/.test(last);
  });
  expect(wrong).toEqual([]);
});

it('records no run from before the first release', () => {
  const first = releases().at(-1)?.date ?? '';
  expect(runs.filter(({ last }) => last < first)).toEqual([]);
});

it('records the pinned version of Kubernetes, and two recorded releases', () => {
  const of = (name: string): string => runs.find(({ part }) => part === name)?.version ?? '';
  expect(of('Kubernetes')).toContain(kubernetesVersion());
  const recorded = releases().filter(({ version }) => of('release before').includes(version));
  expect(recorded).toHaveLength(2);
});

it.each([
  ['page', rowsOf(page, 'Versions').map(([, , suite = '']) => suite)],
  ['record', runs.map(({ command }) => command)],
])('names each suite of the platforms: %s', (_, commands) => {
  const suites = Object.keys(scripts).filter((name) => /^test:(kernel|arm64|images|kubernetes|ovs|runtime|upgrade)$/.test(name));
  expect(suites).toHaveLength(7);
  expect(suites.filter((name) => !commands.some((command) => command.includes(`\`npm run ${name}\``)))).toEqual([]);
});
