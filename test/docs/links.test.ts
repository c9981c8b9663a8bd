import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { expect, it } from 'vitest';

const root = join(import.meta.dirname, '..', '..');

const pages = [
  ...readdirSync(root).filter((name) => name.endsWith('.md') && !name.includes('fixtures/')),
  ...['docs', 'src', 'lab', 'test', 'build'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.md') && !name.includes('fixtures/'))
      .map((name) => join(folder, name)),
  ),
];

it('has no link to a missing file', () => {
  const dead = pages.flatMap((page) =>
    Array.from(readFileSync(join(root, page), 'utf8').matchAll(/\]\((?!https?:|#)([^)#\s]+)(?:#[^)]*)?\)/g), ([, target = '']) => target)
      .filter((target) => !existsSync(resolve(root, dirname(page), target)))
      .map((target) => `${relative('.', page)}: ${target}`),
  );
  expect(dead).toEqual([]);
});

/** Anchors in GitHub's form: lower case, no punctuation, dashes for blanks, a number after the second of a name. */
function anchorsOf(file: string): ReadonlySet<string> {
  const text = readFileSync(file, 'utf8').replace(/^```.*?^```/gms, '');
  const anchors = new Set<string>();
  for (const [, heading = ''] of text.matchAll(/^#{1,6} (.*)$/gm)) {
    const anchor = heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-');
    for (let more = 0; ; more++) {
      const name = more === 0 ? anchor : `${anchor}-${more}`;
      if (anchors.has(name)) continue;
      anchors.add(name);
      break;
    }
  }
  return anchors;
}

it('has no link to a missing part of a page', () => {
  const dead = pages.flatMap((page) =>
    Array.from(readFileSync(join(root, page), 'utf8').matchAll(/\]\((?!https?:)([^)#\s]*)#([^)]+)\)/g), ([, target = '', anchor = '']) => {
      const file = target === '' ? join(root, page) : resolve(root, dirname(page), target);
      return existsSync(file) && !anchorsOf(file).has(anchor) ? `${page}: ${target}#${anchor}` : [];
    }).flat(),
  );
  expect(dead).toEqual([]);
});

it('leads from the README to every page', () => {
  const linked = (page: string): readonly string[] =>
    Array.from(readFileSync(join(root, page), 'utf8').matchAll(/\]\((?!https?:|#)([^)#\s]+)/g), ([, target = '']) =>
      relative(root, resolve(root, dirname(page), target)),
    ).filter((target) => pages.includes(target));
  const reached = new Set(['README.md']);
  for (const page of reached) for (const target of linked(page)) reached.add(target);
  expect(pages.filter((page) => page.startsWith('docs/') && !reached.has(page))).toEqual([]);
});

it('links to records of runs only from pages for contributors', () => {
  const forContributors = /^(README|CONTRIBUTING|CHANGELOG)\.md$|^docs\/(adr|contributing|design|records)\//;
  const linking = pages.filter(
    (page) => !forContributors.test(page) && /\]\([^)]*\brecords\//.test(readFileSync(join(root, page), 'utf8')),
  );
  expect(linking).toEqual([]);
});

it('has a place in the documents for every npm script', () => {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { scripts: Readonly<Record<string, string>> };
  const contributing = ['CONTRIBUTING.md', 'docs/contributing/tests.md'].map((page) => readFileSync(join(root, page), 'utf8')).join('\n');
  const named = (name: string): boolean => new RegExp(`npm (run )?${name}(?![\\w:])`).test(contributing);
  expect(Object.keys(scripts).filter((name) => !named(name))).toEqual([]);
});
