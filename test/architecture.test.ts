import { existsSync, readdirSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { dirname, join } from 'node:path';
import { expect, it } from 'vitest';
import { foldersByProtocol, mayUse } from './rooms.ts';
import { folderOf, generated, sourceFiles, src } from './support/source-tree.ts';

const files = sourceFiles();
const imports = files.flatMap((file) => file.imports);
const folders = [...new Set(files.map(({ path }) => folderOf(path)))];

it('every source is one that Node runs as it is', () => {
  const refused = files.filter(({ text }) => {
    try {
      stripTypeScriptTypes(text);
      return false;
    } catch {
      return true;
    }
  });
  expect(refused.map(({ path }) => path)).toEqual([]);
});

it('every room, and every folder inside a room, is in the table', () => {
  expect(folders.filter((folder) => !Object.hasOwn(mayUse, folder))).toEqual([]);
});

for (const [folder, allowed] of Object.entries(mayUse)) {
  const own = imports
    .filter(({ file }) => folderOf(file) === folder)
    .map(({ file, target, typeOnly }) => ({ file, used: folderOf(target), typeOnly }))
    .filter(({ used }) => used !== folder);

  it(`${folder} uses only ${allowed.join(', ') || 'nothing'}`, () => {
    expect(own.filter(({ used, typeOnly }) => !allowed.includes(used) && !(typeOnly && allowed.includes(`types:${used}`)))).toEqual([]);
  });

  it(`${folder} is allowed nothing that it does not need`, () => {
    if (!folders.includes(folder)) return; // planned
    const needed = own.flatMap(({ used, typeOnly }) => (typeOnly ? [`types:${used}`] : [used, `types:${used}`]));
    expect(allowed.filter((each) => !needed.includes(each))).toEqual([]);
  });
}

it('has no room that another one uses and that uses it', () => {
  const rooms = new Map<string, Set<string>>();
  for (const [folder, used] of Object.entries(mayUse)) {
    const own = rooms.get(roomOf(folder)) ?? new Set<string>();
    for (const each of used) if (roomOf(each) !== roomOf(folder)) own.add(roomOf(each.replace('types:', '')));
    rooms.set(roomOf(folder), own);
  }
  expect(circlesOf(rooms)).toEqual([]);
});

it('has no circle of files, of types neither', () => {
  const uses = new Map(files.map(({ path, imports: own }) => [path, new Set(own.map(({ target }) => target))]));
  expect(circlesOf(uses)).toEqual([]);
});

it('has no folder of more than twenty files, but where a protocol is laid out', () => {
  const counts = new Map<string, number>();
  for (const { path } of files) if (!generated.has(path)) counts.set(dirname(path), (counts.get(dirname(path)) ?? 0) + 1);
  const large = [...counts].filter(([folder, count]) => count > FILES_MAX && !foldersByProtocol.includes(folder));
  expect(large).toEqual([]);
});

it('keeps the agent to main, configuration and wiring', () => {
  expect(files.filter(({ path }) => roomOf(path) === 'agent').length).toBeLessThanOrEqual(AGENT_FILES_MAX);
});

it('has a page for every room, and for every folder of more than eight files', () => {
  const large = [...new Set(files.map(({ path }) => dirname(path)))].filter(
    (folder) =>
      !folder.includes('/') ||
      readdirSync(join(src, folder)).filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts')).length > PAGE_FROM,
  );
  expect(large.filter((folder) => !existsSync(join(src, folder, 'README.md')))).toEqual([]);
});

const FILES_MAX = 20;
const AGENT_FILES_MAX = 15;
const PAGE_FROM = 8;

function roomOf(path: string): string {
  return path.replace('types:', '').split('/')[0] ?? path;
}

/** Groups of nodes that lead to each other (Tarjan, 1972). */
function circlesOf(uses: ReadonlyMap<string, ReadonlySet<string>>): string[][] {
  const index = new Map<string, number>();
  const low = new Map<string, number>();
  const stack: string[] = [];
  const circles: string[][] = [];
  const visit = (node: string): void => {
    index.set(node, index.size);
    low.set(node, index.get(node) ?? 0);
    stack.push(node);
    for (const next of uses.get(node) ?? []) {
      if (!uses.has(next)) continue;
      if (!index.has(next)) visit(next);
      if (stack.includes(next)) low.set(node, Math.min(low.get(node) ?? 0, low.get(next) ?? 0));
    }
    if (low.get(node) !== index.get(node)) return;
    const circle = stack.splice(stack.indexOf(node));
    if (circle.length > 1) circles.push(circle.toSorted());
  };
  for (const node of uses.keys()) if (!index.has(node)) visit(node);
  return circles;
}
