import { existsSync, readdirSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { dirname, join } from 'node:path';
import { expect, it } from 'vitest';
import { areas, floors, largeFolders, rooms } from './rooms.ts';
import { folderOf, generated, sourceFiles, sourcePath } from './support/source-tree.ts';

const files = sourceFiles();
const imports = files.flatMap((file) => file.imports);
const folders = [...new Set(files.map(({ path }) => folderOf(path)))];

it('every source is one that Node runs without compilation, but for the page in the browser', () => {
  const refused = files.filter(({ path, text }) => {
    if (path.startsWith('ui/page/')) return false;
    try {
      stripTypeScriptTypes(text);
      return false;
    } catch {
      return true;
    }
  });
  expect(refused.map(({ path }) => path)).toEqual([]);
});

it('every area and every room is in its table', () => {
  expect(Object.keys(areas).toSorted()).toEqual([...new Set(folders.map(areaOf))].toSorted());
  expect(folders.toSorted().filter((folder) => folders.some((other) => other !== folder && areaOf(other) === areaOf(folder)))).toEqual(
    Object.keys(rooms).toSorted(),
  );
});

for (const [area, allowed] of Object.entries(areas)) {
  it(`${area} imports exactly ${allowed.join(', ') || 'nothing'}`, () => {
    const used = imports.filter(({ file }) => areaOf(file) === area).map(({ target }) => areaOf(target));
    expect([...new Set(used)].filter((each) => each !== area).toSorted()).toEqual(allowed.toSorted());
  });
}

for (const [room, allowed] of Object.entries(rooms)) {
  it(`${room} imports exactly ${allowed.join(', ') || 'nothing'} of its area`, () => {
    const used = imports
      .filter(({ file, target }) => folderOf(file) === room && areaOf(target) === areaOf(room))
      .map(({ target }) => folderOf(target));
    expect([...new Set(used)].filter((each) => each !== room).toSorted()).toEqual(allowed.toSorted());
  });
}

it('has at most ninety-three arrows between areas, and every one points to a lower floor', () => {
  const floorOf = (area: string): number => floors.findIndex((floor) => floor.includes(area));
  const arrows = Object.entries(areas).flatMap(([from, used]) => used.map((to) => ({ from, to })));
  expect(arrows.length).toBeLessThanOrEqual(ARROWS_MAX);
  expect(arrows.filter(({ from, to }) => floorOf(from) >= floorOf(to))).toEqual([]);
  expect(floors.flat().toSorted()).toEqual(Object.keys(areas).toSorted());
});

it('keeps dataplane/reconcile free of targets', () => {
  expect(
    imports.filter(
      ({ file, target }) => /^dataplane\/reconcile\//.test(file) && /^(?:dataplane\/targets|openflow|ovsdb|netlink)\//.test(target),
    ),
  ).toEqual([]);
});

it('keeps the model of the switch, the interpreter of flows, the reference and the compilers independent', () => {
  const judges = ['dataplane/switch-model', 'dataplane/flow-walk', 'policy/verify/reference', 'policy/verify/flow-reader'];
  const rooms = [...judges, 'dataplane/compile', 'services/compile', 'policy/flows', 'policy/engine', 'policy/matrix'];
  const wrong = imports.filter(({ file, target }) => {
    const [from, to] = [folderOf(file), folderOf(target)];
    return judges.includes(from) && rooms.includes(to) && from !== to && !/\.test\.ts$/.test(file);
  });
  expect(wrong).toEqual([]);
});

it('has no circular import of files, of types neither', () => {
  const uses = new Map(files.map(({ path, imports: own }) => [path, new Set(own.map(({ target }) => target))]));
  expect(circlesOf(uses)).toEqual([]);
});

it('has no folder of more than twenty files without a reason in its README', () => {
  const counts = new Map<string, number>();
  for (const { path } of files) if (!generated.has(path)) counts.set(dirname(path), (counts.get(dirname(path)) ?? 0) + 1);
  const large = [...counts].filter(([folder, count]) => count > FILES_MAX && !largeFolders.includes(folder));
  expect(large).toEqual([]);
  expect(largeFolders.filter((folder) => (counts.get(folder) ?? 0) <= FILES_MAX)).toEqual([]);
});

it('keeps the agent to main, configuration and wiring', () => {
  expect(files.filter(({ path }) => dirname(path) === 'agent').length).toBeLessThanOrEqual(AGENT_FILES_MAX);
});

it('has a page for every area, and for every folder of more than eight files', () => {
  const large = [...new Set(files.map(({ path }) => dirname(path)))].filter(
    (folder) => readdirSync(sourcePath(folder)).filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts')).length > PAGE_FROM,
  );
  expect([...Object.keys(areas), ...large].filter((folder) => !existsSync(join(sourcePath(folder), 'README.md')))).toEqual([]);
});

const ARROWS_MAX = 93;
const FILES_MAX = 20;
const AGENT_FILES_MAX = 15;
const PAGE_FROM = 8;

function areaOf(path: string): string {
  return path.split('/')[0] ?? path;
}

/** Strongly connected groups of nodes (Tarjan, 1972). */
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
