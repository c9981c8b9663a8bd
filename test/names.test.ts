import type { Class, TSInterfaceDeclaration, TSTypeAliasDeclaration } from 'oxc-parser';
import { expect, it } from 'vitest';
import { retiredWords } from './retired-words.ts';
import { excusedTypeNames } from './rooms.ts';
import { declaredNames } from './support/declared-names.ts';
import { everyFile, generated, type SourceFile, sourceFiles } from './support/source-tree.ts';

/*
 * One type name, one meaning; and no wide interface that half of the program depends on.
 */

const files = sourceFiles().filter(({ path }) => !generated.has(path));

interface NamedType {
  readonly name: string;
  readonly file: string;
  readonly node: TypeNode;
}

type TypeNode = Class | TSInterfaceDeclaration | TSTypeAliasDeclaration;

const types = files.flatMap(typesOf);
const byFile = new Map(files.map((file) => [file.path, typesOf(file)]));

it('gives no two types of the sources one name', () => {
  const places = Map.groupBy(types, ({ name }) => name);
  const doubled = [...places].filter(([name, found]) => found.length > 1 && !Object.hasOwn(excusedTypeNames, name));
  expect(doubled.map(([name, found]) => `${name}: ${found.map(({ file }) => file).join(', ')}`)).toEqual([]);
  expect(Object.keys(excusedTypeNames).filter((name) => (places.get(name)?.length ?? 0) < 2)).toEqual([]);
  expect(Object.keys(excusedTypeNames).length).toBeLessThanOrEqual(EXCUSED_MAX);
});

it('has no wide interface with methods that many files import', () => {
  const wide = types.flatMap(({ name, file, node }) => {
    const members = membersOf(node);
    const importers = files.filter(({ imports }) => imports.some(({ target, names }) => target === file && names.includes(name))).length;
    return members.length > MEMBERS_MAX && importers > IMPORTERS_MAX && !isPlainData(node, file, new Set())
      ? [`${file} ${name}: ${members.length} members, ${importers} importers`]
      : [];
  });
  expect(wide).toEqual([]);
});

it('has no retired word in a declared name', () => {
  const found = everyFile().flatMap(({ path, statements }) =>
    [...declaredNames(statements)].flatMap((name) => {
      const retired = retiredWords.find(({ word }) => word.test(name));
      return retired ? [`${path}: ${name} (better: ${retired.better})`] : [];
    }),
  );
  expect(found).toEqual([]);
});

const EXCUSED_MAX = 10;
const MEMBERS_MAX = 8;
const IMPORTERS_MAX = 8;

function typesOf({ path: file, statements }: SourceFile): readonly NamedType[] {
  return statements.flatMap((statement) => {
    const node = statement.type === 'ExportNamedDeclaration' && statement.declaration ? statement.declaration : statement;
    if (node.type !== 'TSInterfaceDeclaration' && node.type !== 'TSTypeAliasDeclaration' && node.type !== 'ClassDeclaration') return [];
    return node.id ? [{ name: node.id.name, file, node }] : [];
  });
}

type Member = TSInterfaceDeclaration['body']['body'][number];
type AnyType = TSTypeAliasDeclaration['typeAnnotation'];

/** Members of interfaces and of aliases of object types; a class is not a port that can be replaced. */
function membersOf(node: TypeNode): readonly Member[] {
  if (node.type === 'TSInterfaceDeclaration') return node.body.body;
  if (node.type !== 'TSTypeAliasDeclaration') return [];
  const parts = node.typeAnnotation.type === 'TSIntersectionType' ? node.typeAnnotation.types : [node.typeAnnotation];
  return parts.flatMap((part) => (part.type === 'TSTypeLiteral' ? part.members : []));
}

function isPlainData(node: TypeNode, file: string, passed: Set<string>): boolean {
  if (node.type === 'TSTypeAliasDeclaration') return isPlainType(node.typeAnnotation, file, passed);
  if (node.type !== 'TSInterfaceDeclaration') return false;
  return node.body.body.every(
    (member) => member.type === 'TSPropertySignature' && isPlainType(member.typeAnnotation?.typeAnnotation, file, passed),
  );
}

/** Types of the language and of Node that are values. */
const plainNames = [
  'Readonly',
  'ReadonlyArray',
  'Array',
  'Record',
  'Partial',
  'Pick',
  'Omit',
  'Exclude',
  'Extract',
  'Required',
  'NonNullable',
];
const plainClasses = ['ReadonlyMap', 'ReadonlySet', 'Map', 'Set', 'Date', 'RegExp', 'Uint8Array', 'Buffer'];

function isPlainType(type: AnyType | undefined, file: string, passed: Set<string>): boolean {
  if (type === undefined) return true;
  const all = (types: readonly AnyType[]): boolean => types.every((each) => isPlainType(each, file, passed));
  switch (type.type) {
    case 'TSUnionType':
    case 'TSIntersectionType':
      return all(type.types);
    case 'TSArrayType':
      return isPlainType(type.elementType, file, passed);
    case 'TSTypeOperator':
      return isPlainType(type.typeAnnotation, file, passed);
    case 'TSTypeLiteral':
      return type.members.every(
        (member) =>
          member.type !== 'TSMethodSignature' &&
          (!('typeAnnotation' in member) || isPlainType(member.typeAnnotation?.typeAnnotation ?? undefined, file, passed)),
      );
    case 'TSTypeReference': {
      const name = type.typeName.type === 'Identifier' ? type.typeName.name : undefined;
      if (name === undefined) return true;
      if (plainNames.includes(name) || plainClasses.includes(name)) return all(type.typeArguments?.params ?? []);
      return isPlainReference(name, file, passed);
    }
    case 'TSFunctionType':
    case 'TSConstructorType':
      return false;
    default:
      return true;
  }
}

/** A type that is not found here belongs to another package, and is not a value. */
function isPlainReference(name: string, file: string, passed: Set<string>): boolean {
  const source = files.find(({ path }) => path === file);
  const from = source?.imports.find(({ names }) => names.includes(name))?.target ?? file;
  const key = `${from} ${name}`;
  if (passed.has(key)) return true;
  passed.add(key);
  const found = byFile.get(from)?.find((each) => each.name === name);
  return found !== undefined && isPlainData(found.node, from, passed);
}
