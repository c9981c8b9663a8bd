import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseSync } from 'oxc-parser';
import { expect, it } from 'vitest';
import { root } from './support/source-tree.ts';

/*
 * Sources are written in the field's language: a doc comment begins with a noun phrase or a verb in the third person, and twelve words of the
 * project's early dialect are not used. `test/docs/prose.test.ts` checks documents, `test/names.test.ts` further words of declared names.
 */

/** Directories whose sources are checked. */
const folders: readonly string[] = ['src', 'lab', 'build', 'test'];

const forbiddenBeginning = /^(?:What|Of|As|Whose|Whether|By|For)\b/;
const retired = /\b(?:octets?|anew|mend(?:s|ed|ing)?|nobody|whoever|whom|lent|told|(?:is|are|was|were) said|says so|a look|the world)\b/i;
const retiredParts = new Set(['octet', 'octets', 'anew', 'mend', 'mends', 'mended', 'nobody', 'whoever', 'whom', 'lent', 'told', 'world']);

/** Names and output of other programs and standards, and quotations of them. */
const quoted = /`[^`]*`|application\/octet-stream|"[^"]*"|@param \w+/g;

/** Strings and identifiers with a retired word that are another program's name, or a name of the interface, each with its reason. */
const excepted: readonly { readonly file: RegExp; readonly text: RegExp }[] = [
  // user of /etc/passwd
  { file: /^build\/kubernetes\/images\.mjs$/, text: /nobody:x:65534/ },
  // elements of IPFIX, by their registered names, and a field of Wireshark
  {
    file: /^(?:src\/ipfix\/|src\/operations\/flow-log\/export\/ipfix-records|test\/export\/ipfix)/,
    text: /[oO]ctetDeltaCount|(initiator|responder)Octets|cflow\.octets/,
  },
  // files that state the rule
  { file: /^test\/(?:language|retired-words|docs\/prose)/, text: /./ },
];

interface Comment {
  readonly place: string;
  readonly isDoc: boolean;
  readonly text: string;
}

const sources = folders.flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((path) => /\.m?ts$|\.mjs$/.test(path) && !path.includes('node_modules') && !path.endsWith('schema-data.ts'))
    .map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') })),
);
/** Exceptions that a source needs. */
const needed = new Set<(typeof excepted)[number]>();
const parsed = sources.map(({ path, text }) => {
  const { program, comments } = parseSync(path, text);
  return { path, text, program, comments };
});
const allComments = parsed.flatMap(commentsOf);
const findings = parsed.map(findingsOf);

it('has no doc comment that begins without its noun', () => {
  expect(
    allComments.filter(({ isDoc, text }) => isDoc && forbiddenBeginning.test(text)).map(({ place, text }) => `${place}: ${text}`),
  ).toEqual([]);
});

it('has no retired word in a comment', () => {
  const found = allComments.flatMap(({ place, text }) => {
    const word = retired.exec(text.replace(quoted, ''))?.[0];
    return word === undefined ? [] : [`${place}: ${word}`];
  });
  expect(found).toEqual([]);
});

it.each(['strings', 'identifiers'] as const)('has no retired word in %s', (kind) => {
  expect(findings.flatMap((found) => found[kind])).toEqual([]);
});

it('has no exception that no source needs', () => {
  expect(excepted.filter((each) => !needed.has(each))).toEqual([]);
});

it('has no retired word in manifests, charts, scripts and images', () => {
  const found = plainFiles().flatMap((path) => {
    const text = readFileSync(join(root, path), 'utf8').replace(/application\/octet-stream/g, '');
    return text.split('\n').flatMap((line, at) => (retired.test(line) ? [`${path}:${at + 1}: ${line.trim()}`] : []));
  });
  expect(plainFiles()).toContain('build/observability/alerts.yaml');
  expect(found).toEqual([]);
});

function plainFiles(): readonly string[] {
  return ['build', 'lab', '.github'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .map((name) => join(folder, name))
      .filter((path) => /\.(?:ya?ml|tpl|sh|json|Dockerfile)$/.test(path) && !path.includes('node_modules')),
  );
}

function commentsOf({ path, text: source, comments: found }: (typeof parsed)[number]): readonly Comment[] {
  return found.map(({ start, value }) => ({
    place: placeIn(path, source, start),
    isDoc: value.startsWith('*'),
    text: value
      .replace(/^\s*\*+/gm, '')
      .replace(/\s+/g, ' ')
      .trim(),
  }));
}

function findingsOf({ path, text, program }: (typeof parsed)[number]): Readonly<Record<'strings' | 'identifiers', readonly string[]>> {
  const strings: string[] = [];
  const identifiers: string[] = [];
  const add = (list: string[], start: number, found: string): void => {
    const exception = excepted.find(({ file, text: known }) => file.test(path) && known.test(found));
    if (exception) needed.add(exception);
    else list.push(`${placeIn(path, text, start)}: ${found}`);
  };
  walk(program, (node) => {
    const { type, start, name, value } = node;
    if ((type === 'Identifier' || type === 'PrivateIdentifier') && partsOf(String(name)).some((part) => retiredParts.has(part)))
      add(identifiers, start, String(name));
    const raw = type === 'Literal' ? value : type === 'TemplateElement' ? (value as { raw: string }).raw : undefined;
    if (typeof raw !== 'string' || !retired.test(raw.replace(/application\/octet-stream/g, ''))) return;
    add(strings, start, raw.slice(0, 120));
  });
  return { strings, identifiers };
}

interface AnyNode {
  readonly type: string;
  readonly start: number;
  readonly name?: unknown;
  readonly value?: unknown;
}

/** Calls `visit` for every node of a syntax tree. */
function walk(node: unknown, visit: (node: AnyNode) => void): void {
  if (typeof node !== 'object' || node === null) return;
  if ('type' in node && typeof node.type === 'string') visit(node as AnyNode);
  for (const child of Object.values(node)) walk(child, visit);
}

function partsOf(name: string): readonly string[] {
  return name.split(/(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+/).map((part) => part.toLowerCase());
}

function placeIn(path: string, source: string, start: number): string {
  return `${path}:${source.slice(0, start).split('\n').length}`;
}
