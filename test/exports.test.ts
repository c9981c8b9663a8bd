import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { parseSync } from 'oxc-parser';
import { expect, it } from 'vitest';
import { root } from './support/source-tree.ts';

/*
 * Exports are imported by another file: a reader need not search further, and the compiler reports unused ones.
 */

/** Entries of packages: other projects import these. */
const entries = ['src/ovsdb/entry.ts', 'src/openflow/entry.ts'];
const entryFolder = 'src/ovsdb/schema/';

const modules = ['src', 'lab', 'test', 'build']
  .flatMap((folder) => readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((file) => join(folder, file)))
  .filter((path) => /\.(?:m?tsx?|mjs)$/.test(path) && !path.startsWith('test/fixtures/'))
  .map((path) => {
    const text = readFileSync(join(root, path), 'utf8');
    return { path, text, module: parseSync(path, text).module };
  });

/** `file#name` of each name that is imported, and files that are imported as a whole. */
const named = new Set<string>();
const whole = new Set<string>();
for (const { path, text, module } of modules) {
  const use = (specifier: string, name?: string | null): void => {
    if (!specifier.startsWith('.')) return;
    const target = normalize(join(dirname(path), specifier));
    if (name) named.add(`${target}#${name}`);
    else whole.add(target);
  };
  for (const { moduleRequest, entries: imported } of module.staticImports)
    for (const { importName } of imported) use(moduleRequest.value, importName.name);
  for (const { entries: passed } of module.staticExports)
    for (const { moduleRequest, importName } of passed) if (moduleRequest) use(moduleRequest.value, importName.name);
  for (const { moduleRequest } of module.dynamicImports) use(text.slice(moduleRequest.start + 1, moduleRequest.end - 1));
  // Types that are named in place, `import('./x.ts').Y`.
  for (const [, specifier = ''] of text.matchAll(/\bimport\('([^']+)'\)/g)) use(specifier);
}

it('exports nothing that no other file imports', () => {
  const unused = modules
    .filter(({ path }) => /^(?:src|lab)\//.test(path) && !path.endsWith('.test.ts'))
    .filter(({ path }) => !entries.includes(path) && !path.startsWith(entryFolder) && !whole.has(path))
    .flatMap(({ path, module }) =>
      module.staticExports.flatMap(({ entries: own }) => own.flatMap(({ exportName: { name } }) => (name ? [`${path}#${name}`] : []))),
    )
    .filter((each) => !named.has(each));
  expect(unused).toEqual([]);
});
