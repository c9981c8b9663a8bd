import { badRequest } from '../../errors/api-error.ts';
import { cloneJson, equalJson, field, isObject, type JsonRecord, setField } from '../../object/json.ts';
import type { ListSchema, ObjectSchema, Schema } from '../../schema/schema.ts';

const directives: ReadonlySet<string> = new Set(['$patch', '$retainKeys']);
const deleteList = '$deleteFromPrimitiveList/';
const setOrder = '$setElementOrder/';

/**
 * Applies a strategic merge patch: like a JSON merge patch, but lists that have a merge key are matched item by item. Supports `$patch:
 * replace|delete|merge`, `$retainKeys`, `$deleteFromPrimitiveList` and `$setElementOrder`.
 *
 * @returns a new object
 * @throws ApiError 400 if a list item lacks its key
 */
export function strategicMerge(original: JsonRecord, patch: JsonRecord, schema: ObjectSchema): JsonRecord {
  return mergeObject(original, patch, (name) => schema.fields.get(name)?.schema);
}

type SchemaOf = (name: string) => Schema | undefined;

function schemaOfFields(schema: Schema | undefined): SchemaOf {
  if (schema?.type === 'object') return (name) => schema.fields.get(name)?.schema;
  if (schema?.type === 'map') return () => schema.values;
  return () => undefined;
}

function mergeObject(original: JsonRecord, patch: JsonRecord, schemaOf: SchemaOf): JsonRecord {
  if (patch['$patch'] === 'replace') return withoutDirectives(patch);
  if (patch['$patch'] === 'delete') return {};
  const result = retained(original, patch);
  for (const [name, change] of Object.entries(patch)) {
    if (directives.has(name) || name.startsWith(deleteList) || name.startsWith(setOrder)) continue;
    if (change === null) delete result[name];
    else setField(result, name, mergeField(field(result, name), change, schemaOf(name)));
  }
  for (const [name, list] of Object.entries(patch)) {
    if (name.startsWith(deleteList)) removeMembers(result, name.slice(deleteList.length), list);
    if (name.startsWith(setOrder)) reorder(result, name.slice(setOrder.length), list, schemaOf(name.slice(setOrder.length)));
  }
  return result;
}

function mergeField(original: unknown, change: unknown, schema: Schema | undefined): unknown {
  if (isObject(change)) return mergeObject(isObject(original) ? original : {}, change, schemaOfFields(schema));
  if (!Array.isArray(change)) return change;
  if (schema?.type !== 'list' || schema.semantics.patch === undefined) return change.filter((item) => !isReplaceMark(item)).map(stripped);
  const there = Array.isArray(original) ? original : [];
  if (change.some(isReplaceMark)) return change.filter((item) => !isReplaceMark(item)).map(stripped);
  return schema.semantics.patch === '' ? mergeSet(there, change) : mergeKeyed(there, change, schema.semantics.patch, schema);
}

function mergeSet(original: readonly unknown[], change: readonly unknown[]): unknown[] {
  return [...original, ...change.filter((item) => !original.some((there) => equalJson(there, item)))];
}

function mergeKeyed(original: readonly unknown[], change: readonly unknown[], key: string, schema: ListSchema): unknown[] {
  let result = original.map(cloneJson);
  for (const item of change) {
    if (!isObject(item)) throw badRequest(`a strategic merge patch needs objects in a list merged by ${key}`);
    const value = item[key];
    if (value === undefined) throw badRequest(`map: ${JSON.stringify(item)} does not contain declared merge key: ${key}`);
    const index = result.findIndex((there) => equalJson(field(there, key), value));
    if (item['$patch'] === 'delete') result = result.filter((there) => !equalJson(field(there, key), value));
    else if (index < 0) result.push(mergeObject({}, item, schemaOfFields(schema.items)));
    else {
      const there = result[index];
      result[index] = mergeObject(isObject(there) ? there : {}, item, schemaOfFields(schema.items));
    }
  }
  return result;
}

function isReplaceMark(item: unknown): boolean {
  return isObject(item) && item['$patch'] === 'replace';
}

function stripped(value: unknown): unknown {
  return isObject(value) ? withoutDirectives(value) : value;
}

function withoutDirectives(patch: JsonRecord): JsonRecord {
  return Object.fromEntries(
    Object.entries(patch)
      .filter(([name, value]) => !directives.has(name) && value !== null)
      .map(([name, value]) => [name, stripped(value)]),
  );
}

/** `$retainKeys` names the fields of a union that survive. */
function retained(original: JsonRecord, patch: JsonRecord): JsonRecord {
  const keys = patch['$retainKeys'];
  const result = cloneJson(original);
  if (!Array.isArray(keys)) return result;
  for (const name of Object.keys(result)) if (!keys.includes(name)) delete result[name];
  return result;
}

function removeMembers(result: JsonRecord, name: string, members: unknown): void {
  const list = result[name];
  if (Array.isArray(list) && Array.isArray(members))
    result[name] = list.filter((item) => !members.some((member) => equalJson(member, item)));
}

/** Named items have the given order; items unknown to the patch keep their places after them. */
function reorder(result: JsonRecord, name: string, order: unknown, schema: Schema | undefined): void {
  const list = result[name];
  if (!Array.isArray(list) || !Array.isArray(order) || schema?.type !== 'list' || schema.semantics.patch === undefined) return;
  const key = schema.semantics.patch;
  const identity = (item: unknown) => JSON.stringify(key === '' ? item : field(item, key));
  const places = new Map(order.map((item, index) => [identity(item), index]));
  const place = (item: unknown) => places.get(identity(item)) ?? order.length;
  result[name] = list.toSorted((a, b) => place(a) - place(b));
}
