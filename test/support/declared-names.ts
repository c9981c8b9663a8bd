import type { Statement } from './source-tree.ts';

/** Names of variables, parameters, functions, types, and members of classes, interfaces and object literals. */
export function declaredNames(statements: readonly Statement[]): ReadonlySet<string> {
  const names = new Set<string>();
  walk(statements, names);
  return names;
}

function walk(node: unknown, names: Set<string>): void {
  if (Array.isArray(node)) {
    for (const each of node) walk(each, names);
    return;
  }
  if (!isNode(node)) return;
  if (node['computed'] !== true) add(node['key'], names);
  add(node['id'], names);
  if (Array.isArray(node['params'])) for (const each of node['params']) add(each, names);
  for (const child of Object.values(node)) if (typeof child === 'object') walk(child, names);
}

/** A name, or the names in a pattern: `{ a, b: c = 1, ...rest }`. */
function add(pattern: unknown, names: Set<string>): void {
  if (!isNode(pattern)) return;
  if ((pattern['type'] === 'Identifier' || pattern['type'] === 'PrivateIdentifier') && typeof pattern['name'] === 'string')
    names.add(pattern['name']);
  for (const part of [pattern['left'], pattern['argument'], pattern['value'], pattern['parameter']]) add(part, names);
  for (const parts of [pattern['properties'], pattern['elements']]) if (Array.isArray(parts)) for (const each of parts) add(each, names);
}

function isNode(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}
