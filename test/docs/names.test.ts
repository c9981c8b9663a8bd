import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join, matchesGlob } from 'node:path';
import { Readable } from 'node:stream';
import { expect, it } from 'vitest';
import { manifestParts, poolParts, uninstallParts } from '../../build/manifests/manifest.ts';
import { defaultOptions } from '../../build/manifests/options.ts';
import { METRIC_PREFIX, metricRows } from '../../src/operations/admin/metrics/metric-rows.ts';
import { plain } from '../../src/seinectl/paint.ts';
import { run } from '../../src/seinectl/program.ts';

/*
 * Names on the pages exist: files, commands with their options, metrics, scripts, objects of the manifest. Decisions and records are
 * excluded: they are true of their date.
 */

const root = join(import.meta.dirname, '..', '..');

interface Page {
  readonly name: string;
  readonly text: string;
  /** Text in backquotes, and the lines of blocks. */
  readonly code: readonly string[];
}

const pages: readonly Page[] = [
  ...readdirSync(root).filter((name) => name.endsWith('.md') && name !== 'CHANGELOG.md'),
  ...readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md') && !/^(adr|records)\//.test(name))
    .map((name) => join('docs', name)),
].map((name) => {
  const text = readFileSync(join(root, name), 'utf8');
  const blocks = Array.from(text.matchAll(/^```(?:sh|text)\n(.*?)^```/gms), ([, block = '']) => block.split('\n')).flat();
  const quoted = Array.from(text.replace(/^```.*?^```/gms, '').matchAll(/`([^`\n]+)`/g), ([, code = '']) => code);
  return { name, text, code: [...quoted, ...blocks] };
});

function all(pick: (page: Page) => readonly string[]): string[] {
  return pages.flatMap((page) => [...new Set(pick(page))].map((found) => `${page.name}: ${found}`));
}

const files = ['src', 'lab', 'test', 'build', 'docs', 'bin'].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((path) => join(folder, path)),
);
const baseNames = new Set(files.map((path) => basename(path)));

it('names existing files of the repository', () => {
  const isThere = (path: string): boolean => files.some((file) => file === path || matchesGlob(file, path));
  const missing = all(({ code }) =>
    code.flatMap((text) => {
      const paths = Array.from(text.matchAll(/(?:^|[\s(])((?:src|test|build|docs|bin)\/[\w.*/-]+)/g), ([, path = '']) =>
        path.replace(/[./]$/, ''),
      );
      const names = /^[\w-]+\.(test\.)?(ts|mjs)$/.test(text) && !baseNames.has(text) ? [text] : [];
      return [...paths.filter((path) => path !== 'src/area' && !isThere(path)), ...names];
    }),
  );
  expect(missing).toEqual([]);
});

it('names existing scripts of npm', () => {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { scripts: Readonly<Record<string, string>> };
  const named = ({ text }: Page) => Array.from(text.matchAll(/npm run ([\w:]+)/g), ([, name = '']) => name);
  expect(all((page) => named(page).filter((name) => !(name in scripts)))).toEqual([]);
});

it('names metrics that an agent exports', () => {
  const exported = new Set(Object.keys(metricRows).map((name) => METRIC_PREFIX + name));
  const pattern = new RegExp(`\\b${METRIC_PREFIX}\\w+`, 'g');
  const named = ({ text }: Page) =>
    Array.from(text.matchAll(pattern), ([name]) => name.replace(/_(bucket|sum|count)$/, (end) => (exported.has(name) ? end : '')));
  expect(all((page) => named(page).filter((name) => !exported.has(name)))).toEqual([]);
});

it('names existing objects of the manifest', () => {
  const canary = { ...defaultOptions, pool: { name: 'canary', ovs: true } };
  const parts = [...manifestParts(defaultOptions), ...poolParts(canary), ...uninstallParts(defaultOptions)];
  const names = new Set(parts.map(({ object }) => object.metadata?.name));
  const named = ({ code }: Page) =>
    code.flatMap((text) =>
      text.includes('-n seine-system')
        ? Array.from(text.matchAll(/(?:ds\/|daemonset[/ ]|configmap[/ ]|app=|name=)(seine-[\w-]+)/g), ([, name = '']) => name)
        : [],
    );
  expect(pages.flatMap(named).length).toBeGreaterThan(5);
  expect(all((page) => named(page).filter((name) => !names.has(name)))).toEqual([]);
});

/** Uses of a program: its words up to a pipe, a comment or the command it executes. */
function usesOf(program: string): ReadonlySet<string> {
  const pattern = new RegExp(`(?:^|[\\s])${program} ([^|;&#)]+)`, 'g');
  const uses = pages.flatMap(({ code }) => code).flatMap((text) => Array.from(text.matchAll(pattern), ([, use = '']) => use));
  return new Set(uses.map((use) => (use.split(' -- ')[0] ?? '').trim()));
}

const optionsOf = (words: readonly string[]) => words.filter((word) => /^--?[a-z]/.test(word)).map((word) => word.replace(/[=.,].*$/, ''));
const verbsOf = (words: readonly string[]) => words.filter((word) => /^[a-z]/.test(word));

it('uses verbs and options of seinectl', async () => {
  const groups = new Set(['get', 'explain', 'policy', 'wire', 'node', 'cluster']);
  const uses = usesOf('seinectl');
  expect(uses.size).toBeGreaterThan(40);
  for (const use of uses) {
    // Matches any of them.
    const words = use.replace('get …', 'get flows').split(/\s+/);
    const verb = verbsOf(words.slice(0, groups.has(words[0] ?? '') ? 2 : 1));
    const help: string[] = [];
    const terminal = { room: { width: 100, paint: plain }, line: (text: string) => void help.push(text), remark: () => undefined };
    expect([use, await run([...verb, '--help'], terminal, Readable.from(['']))]).toEqual([use, 0]);
    await run(['--help'], terminal, Readable.from(['']));
    expect([use, optionsOf(words).filter((option) => !help.join('\n').includes(option))]).toEqual([use, []]);
  }
});

it('uses verbs and options of seine-lab', () => {
  const program = join(root, 'lab/main.ts');
  const helps = new Map<string, string>();
  const helpOf = (verb: string): string => {
    const known =
      helps.get(verb) ?? execFileSync(process.execPath, [program, ...verb.split(' ').filter(Boolean), '--help'], { encoding: 'utf8' });
    helps.set(verb, known);
    return known;
  };
  const uses = usesOf('seine-lab');
  expect(uses.size).toBeGreaterThan(5);
  for (const use of uses) {
    const words = use.split(/\s+/);
    const verb = verbsOf(words.slice(0, ['node', 'external'].includes(words[0] ?? '') ? 2 : 1)).join(' ');
    expect([use, optionsOf(words).filter((option) => !helpOf(verb).includes(option))]).toEqual([use, []]);
  }
});

it('uses options of the manifest’s renderer', () => {
  const help = execFileSync(process.execPath, [join(root, 'build/manifests/render.ts'), '--help'], { encoding: 'utf8' });
  const uses = usesOf('npm run render --');
  expect(uses.size).toBeGreaterThan(2);
  for (const use of uses)
    expect([use, optionsOf(use.split(/\s+/)).filter((option) => !new RegExp(`${option}[ ,]`).test(help))]).toEqual([use, []]);
});

it('ends each page about behaviour with its files in the code', () => {
  const described = pages.filter(({ name }) => ['docs', join('docs', 'installation')].includes(dirname(name)));
  const lacking = described.filter(({ text }) => {
    const section = text.split('\n## ').at(-1) ?? '';
    return !section.startsWith('In the code\n') || !/`(src|build|test)\/[\w./-]+`/.test(section);
  });
  expect(lacking.map(({ name }) => name)).toEqual([]);
});
