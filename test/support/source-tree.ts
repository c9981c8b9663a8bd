import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { parseSync } from 'oxc-parser';

export const src = resolve(import.meta.dirname, '..', '..', 'src');

type Program = ReturnType<typeof parseSync>['program'];
export type Statement = Program['body'][number];

export interface SourceFile {
  /** Relative to `src`. */
  readonly path: string;
  readonly text: string;
  readonly statements: readonly Statement[];
  readonly imports: readonly Import[];
}

export interface Import {
  /** The file it is written in, relative to `src`. */
  readonly file: string;
  /** The file it names, relative to `src`. */
  readonly target: string;
  readonly typeOnly: boolean;
  /** Exported names; empty for a whole module. */
  readonly names: readonly string[];
}

/** Every source of the product and the lab, without tests beside them and without what is generated. */
export function sourceFiles(): readonly SourceFile[] {
  return readdirSync(src, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
    .toSorted()
    .map(parse);
}

/** Sources, their tests, the tests of all, and what builds and documents: with paths relative to the checkout, without what is generated. */
export function everyFile(): readonly { readonly path: string; readonly statements: readonly Statement[] }[] {
  return ['src', 'test', 'build'].flatMap((folder) =>
    readdirSync(join(src, '..', folder), { recursive: true, encoding: 'utf8' })
      .filter(
        (file) =>
          file.endsWith('.ts') && !(folder === 'src' && generated.has(file)) && !(folder === 'test' && file.startsWith('fixtures/')),
      )
      .toSorted()
      .map((file) => {
        const path = join(folder, file);
        return { path, statements: parseSync(path, readFileSync(join(src, '..', path), 'utf8')).program.body };
      }),
  );
}

export const generated: ReadonlySet<string> = new Set([
  'ovsdb/schema/open-vswitch.ts',
  'ovsdb/schema/server.ts',
  'lab/apiserver/schema/schema-data.ts',
]);

/** The room of a file, with the folder inside it: the rule of rooms is held two folders deep. */
export function folderOf(file: string): string {
  return dirname(file).split('/').slice(0, 2).join('/');
}

function parse(path: string): SourceFile {
  const text = readFileSync(join(src, path), 'utf8');
  const { program, module } = parseSync(path, text);
  const imported = (specifier: string, typeOnly: boolean, names: readonly string[]): Import[] =>
    specifier.startsWith('.') ? [{ file: path, target: relative(src, resolve(dirname(join(src, path)), specifier)), typeOnly, names }] : [];
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
