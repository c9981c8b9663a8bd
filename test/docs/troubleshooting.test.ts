import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { expect, it } from 'vitest';
import { checkNames } from '../../src/agent-api/check.ts';
import { plain } from '../../src/cli/paint.ts';
import { run } from '../../src/cli/program.ts';

const page = readFileSync(join(import.meta.dirname, '..', '..', 'docs', 'troubleshooting.md'), 'utf8');
const code = Array.from(page.matchAll(/`([^`\n]+)`/g), ([, text = '']) => text);

it('names findings that there are', () => {
  const groups = new Set(Object.keys(checkNames).map((name) => name.split('.')[0]));
  const named = code.filter((text) => /^[a-z]+\.[a-z*]+$/.test(text) && groups.has(text.split('.')[0]) && !text.endsWith('.md'));
  expect(named.length).toBeGreaterThan(20);
  expect(named.filter((name) => !name.endsWith('.*') && !(name in checkNames))).toEqual([]);
});

it('has a heading for each of its own links', () => {
  const anchors = Array.from(page.matchAll(/^## (.+)$/gm), ([, title = '']) =>
    title
      .toLowerCase()
      .replaceAll(/[^a-z0-9 -]/g, '')
      .replaceAll(' ', '-'),
  );
  const links = Array.from(page.matchAll(/\]\(#([^)]+)\)/g), ([, anchor = '']) => anchor);
  expect(links.length).toBeGreaterThan(5);
  expect(links.filter((link) => !anchors.includes(link))).toEqual([]);
});

it('uses verbs and options that seinectl has', async () => {
  const blocks = Array.from(page.matchAll(/^(seinectl .+?)(?: {2,}#.*)?$/gm), ([, text = '']) => text);
  const uses = [...code, ...blocks].filter((text) => text.startsWith('seinectl '));
  expect(uses.length).toBeGreaterThan(10);
  for (const use of new Set(uses)) {
    const words = use.split(' ').slice(1);
    const verb = words.slice(0, ['get', 'explain'].includes(words[0] ?? '') ? 2 : 1).filter((word) => !word.startsWith('-'));
    const help: string[] = [];
    const terminal = { room: { width: 100, paint: plain }, line: (text: string) => void help.push(text), remark: () => undefined };
    expect([use, await run([...verb, '--help'], terminal, Readable.from(['']))]).toEqual([use, 0]);
    for (const option of words.filter((word) => word.startsWith('-'))) expect(help.join('\n')).toContain(option);
  }
});
