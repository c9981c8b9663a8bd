import type { FieldSet } from '../object/api-object.ts';
import { equalJson, field, isObject } from '../object/json.ts';
import type { ListSchema, Schema } from '../schema/schema.ts';

/** Mark of a node of a set that is itself a member, besides its children. */
const self = '.';

const untracked: ReadonlySet<string> = new Set([
  'apiVersion',
  'kind',
  'metadata.name',
  'metadata.generateName',
  'metadata.namespace',
  'metadata.uid',
  'metadata.resourceVersion',
  'metadata.generation',
  'metadata.creationTimestamp',
  'metadata.deletionTimestamp',
  'metadata.deletionGracePeriodSeconds',
  'metadata.managedFields',
  'metadata.selfLink',
]);

/** Every leaf of an object, as FieldsV1. */
export function fieldsOf(object: unknown, schema: Schema): FieldSet {
  return below(object, schema, '');
}

/**
 * The children of one value; none for a leaf.
 *
 * @param path dotted, only as deep as metadata's fields, to omit untracked fields
 */
function below(value: unknown, schema: Schema, path: string): FieldSet {
  const set: FieldSet = {};
  if (schema.type === 'object' && !schema.atomic && isObject(value)) {
    for (const [name, child] of Object.entries(value)) {
      const here = path === '' ? name : `${path}.${name}`;
      if (child === undefined || untracked.has(here)) continue;
      set[`f:${name}`] = below(child, schema.fields.get(name)?.schema ?? { type: 'any' }, path === '' ? name : 'deep');
    }
  } else if (schema.type === 'map' && !schema.atomic && isObject(value)) {
    for (const [name, child] of Object.entries(value)) set[`f:${name}`] = below(child, schema.values, 'deep');
  } else if (schema.type === 'list' && Array.isArray(value) && schema.semantics.keys !== undefined) {
    for (const item of value) {
      const children = below(item, schema.items, 'deep');
      set[itemKey(item, schema)] = Object.keys(children).length === 0 ? {} : { [self]: {}, ...children };
    }
  }
  return path === 'metadata' || path === '' ? withoutEmptyMetadata(set) : set;
}

/** Removes metadata without tracked fields. */
function withoutEmptyMetadata(set: FieldSet): FieldSet {
  const { 'f:metadata': metadata, ...others } = set;
  return metadata === undefined || Object.keys(metadata).length > 0 ? set : others;
}

/** `k:{"port":80,"protocol":"TCP"}` for a list of objects, `v:"x"` for a set of scalars. */
export function itemKey(item: unknown, { semantics, items }: ListSchema): string {
  const keys = semantics.keys ?? [];
  if (keys.length === 0) return `v:${JSON.stringify(item)}`;
  const values = keys.toSorted().flatMap((key) => {
    const value = field(item, key) ?? keyDefault(items, key);
    return value === undefined ? [] : [[key, value] as const];
  });
  return `k:${JSON.stringify(Object.fromEntries(values))}`;
}

/** Default of a list key: a port is TCP unless specified. */
function keyDefault(items: Schema, key: string): unknown {
  return key === 'protocol' && items.type === 'object' && items.fields.has('protocol') ? 'TCP' : undefined;
}

/** Paths whose value is new or different in `now`, and removed paths. */
export function compareFields(before: unknown, now: unknown, schema: Schema): { readonly changed: FieldSet; readonly removed: FieldSet } {
  const [was, is] = [fieldsOf(before ?? {}, schema), fieldsOf(now, schema)];
  return { changed: filterLeaves(is, before, now, schema), removed: subtract(was, is) };
}

/** The subset of `set` whose values differ between two objects. */
export function filterLeaves(set: FieldSet, a: unknown, b: unknown, schema: Schema): FieldSet {
  const result: FieldSet = {};
  const [ofA, ofB] = [childrenOf(a, schema), childrenOf(b, schema)];
  for (const [key, children] of Object.entries(set)) {
    if (key === self) {
      if (a === undefined) result[self] = {};
      continue;
    }
    const [left, right] = [ofA(key), ofB(key)];
    if (isLeaf(children)) {
      if (!equalJson(left.value, right.value)) result[key] = {};
      continue;
    }
    const different = filterLeaves(children, left.value, right.value, right.schema);
    if (!isLeaf(different)) result[key] = different;
  }
  return result;
}

interface Child {
  readonly value: unknown;
  readonly schema: Schema;
}

/** Follows one step of a set into a value. */
export function childAt(value: unknown, key: string, schema: Schema): Child {
  return childrenOf(value, schema)(key);
}

/** Follows steps of a set into a value. A list is indexed once for all of them: a Service may have thousands of ports. */
function childrenOf(value: unknown, schema: Schema): (key: string) => Child {
  if (schema.type === 'list') {
    const items = new Map<string, unknown>();
    // Of two items with one key, the first.
    for (const item of Array.isArray(value) ? value.toReversed() : []) items.set(itemKey(item, schema), item);
    return (key) => ({ value: items.get(key), schema: schema.items });
  }
  if (schema.type === 'object')
    return (key) => ({ value: field(value, key.slice(2)), schema: schema.fields.get(key.slice(2))?.schema ?? { type: 'any' } });
  if (schema.type === 'map') return (key) => ({ value: field(value, key.slice(2)), schema: schema.values });
  return () => ({ value: undefined, schema: { type: 'any' } });
}

export function isLeaf(set: FieldSet): boolean {
  return Object.keys(set).length === 0;
}

export function union(a: FieldSet, b: FieldSet): FieldSet {
  const result: FieldSet = { ...a };
  for (const [key, children] of Object.entries(b)) {
    const there = result[key];
    if (there === undefined) result[key] = children;
    else if (isLeaf(there) !== isLeaf(children)) result[key] = { [self]: {}, ...there, ...children };
    else result[key] = union(there, children);
  }
  return result;
}

/** `a` without the members of `b`; a leaf of `b` removes everything below it. */
export function subtract(a: FieldSet, b: FieldSet): FieldSet {
  const result: FieldSet = {};
  for (const [key, children] of Object.entries(a)) {
    const other = b[key];
    if (other === undefined) result[key] = children;
    else if (isLeaf(other)) continue;
    else if (isLeaf(children)) {
      if (other[self] === undefined) result[key] = children;
    } else {
      const rest = subtract(children, other);
      if (!isLeaf(rest)) result[key] = rest;
    }
  }
  return result;
}

/** `a` without the members of `b`, where a leaf of `b` is only itself: an empty map differs from its content. */
export function without(a: FieldSet, b: FieldSet): FieldSet {
  const result: FieldSet = {};
  for (const [key, children] of Object.entries(a)) {
    const other = b[key];
    if (other === undefined) result[key] = children;
    else if (isLeaf(children)) {
      if (!isLeaf(other) && other[self] === undefined) result[key] = children;
    } else {
      const rest = isLeaf(other) ? children : without(children, other);
      if (!isLeaf(rest)) result[key] = rest;
    }
  }
  return result;
}

export function intersect(a: FieldSet, b: FieldSet): FieldSet {
  const result: FieldSet = {};
  for (const [key, children] of Object.entries(a)) {
    const other = b[key];
    if (other === undefined) continue;
    if (isLeaf(children) && isLeaf(other)) result[key] = {};
    else if (isLeaf(children) || isLeaf(other)) {
      if (children[self] !== undefined || other[self] !== undefined) result[key] = {};
    } else {
      const both = intersect(children, other);
      if (!isLeaf(both)) result[key] = both;
    }
  }
  return result;
}

/** Leaf paths in readable form: `.spec.ports[port=80,protocol="TCP"].nodePort`. */
export function pathsOf(set: FieldSet, prefix = ''): string[] {
  return Object.entries(set).flatMap(([key, children]) => {
    if (key === self) return [];
    const here = `${prefix}${stepText(key)}`;
    return isLeaf(children) ? [here] : pathsOf(children, here);
  });
}

function stepText(key: string): string {
  const text = key.slice(2);
  if (key.startsWith('f:')) return `.${text}`;
  if (key.startsWith('v:')) return `[=${text}]`;
  const parts = Object.entries(JSON.parse(text) as Record<string, unknown>).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  return `[${parts.join(',')}]`;
}
