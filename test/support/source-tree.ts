import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { parseSync } from 'oxc-parser';

/** The checkout. */
export const root = resolve(import.meta.dirname, '..', '..');
const src = join(root, 'src');

type Program = ReturnType<typeof parseSync>['program'];
export type Statement = Program['body'][number];

export interface SourceFile {
  /** Relative to `src`; of the lab, relative to the checkout: `lab/…`. */
  readonly path: string;
  readonly text: string;
  readonly statements: readonly Statement[];
  readonly imports: readonly Import[];
}

export interface Import {
  /** The importing file, as `SourceFile.path`. */
  readonly file: string;
  /** The imported file, as `SourceFile.path`. */
  readonly target: string;
  readonly typeOnly: boolean;
  /** Exported names; empty for a whole module. */
  readonly names: readonly string[];
}

/** Every source of the product and the lab, except their tests and generated files. */
export function sourceFiles(): readonly SourceFile[] {
  return [src, join(root, 'lab')]
    .flatMap((folder) => readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((file) => pathOf(join(folder, file))))
    .filter((file) => /\.tsx?$/.test(file) && !file.endsWith('.test.ts'))
    .toSorted()
    .map(parse);
}

/** Absolute path of a `SourceFile.path`. */
export function sourcePath(path: string): string {
  return /^lab(?:\/|$)/.test(path) ? join(root, path) : join(src, path);
}

/** Inverse of `sourcePath`. */
function pathOf(absolute: string): string {
  const path = relative(root, absolute);
  return path.startsWith('src/') ? path.slice('src/'.length) : path;
}

/** Sources, their tests, all other tests, and the build: with paths relative to the checkout, except generated files. */
export function everyFile(): readonly { readonly path: string; readonly statements: readonly Statement[] }[] {
  return ['src', 'lab', 'test', 'build'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter(
        (file) =>
          /\.tsx?$/.test(file) &&
          !generated.has(folder === 'src' ? file : join(folder, file)) &&
          !(folder === 'test' && file.startsWith('fixtures/')),
      )
      .toSorted()
      .map((file) => {
        const path = join(folder, file);
        return { path, statements: parseSync(path, readFileSync(join(root, path), 'utf8')).program.body };
      }),
  );
}

export const generated: ReadonlySet<string> = new Set([
  'ovsdb/schema/open-vswitch.ts',
  'ovsdb/schema/server.ts',
  'lab/apiserver/schema/schema-data.ts',
]);

/** The room of a file: its folder; in the lab, the first folder below it. */
export function folderOf(file: string): string {
  return file.startsWith('lab/') ? dirname(file).split('/').slice(0, 2).join('/') : dirname(file);
}

function parse(path: string): SourceFile {
  const text = readFileSync(sourcePath(path), 'utf8');
  const { program, module } = parseSync(path, text);
  const imported = (specifier: string, typeOnly: boolean, names: readonly string[]): Import[] =>
    specifier.startsWith('.') ? [{ file: path, target: pathOf(resolve(dirname(sourcePath(path)), specifier)), typeOnly, names }] : [];
  return {
    path,
    text,
    statements: program.body,
    imports: [
      ...module.staticImports.flatMap(({ moduleRequest, entries }) =>
        imported(
          moduleRequest.value,
          entries.length > 0 && entries.every(({ isType }) => isType),
          entries.flatMap(({ importName: { name } }) => name ?? []),
        ),
      ),
      ...module.staticExports.flatMap(({ entries }) =>
        entries.flatMap(({ moduleRequest, isType, importName: { name } }) =>
          moduleRequest ? imported(moduleRequest.value, isType, name === null ? [] : [name]) : [],
        ),
      ),
      ...module.dynamicImports.flatMap(({ moduleRequest: { start, end } }) => imported(text.slice(start + 1, end - 1), false, [])),
    ],
  };
}
