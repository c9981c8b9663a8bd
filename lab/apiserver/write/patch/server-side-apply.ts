import { ApiError, type FieldError } from '../../errors/api-error.ts';
import type { ApiObject, FieldSet, ManagedFieldsEntry } from '../../object/api-object.ts';
import { cloneJson, equalJson, isObject, type JsonRecord } from '../../object/json.ts';
import type { ListSchema, ObjectSchema, Schema } from '../../schema/schema.ts';
import { childAt, fieldsOf, filterLeaves, intersect, isLeaf, itemKey, pathsOf, subtract, union, without } from '../field-sets.ts';
import { entryOf, type Writer } from '../managed-fields.ts';

/**
 * The object after `writer` applies `config`: its fields take the config's values, fields it applied before and no longer names are removed
 * unless another manager owns them, and ownership is recorded in managedFields.
 *
 * @param live undefined when the object is to be created
 * @param config decoded, so that it fits the schema
 * @throws ApiError 409 if others own fields with other values and `force` is not set
 */
export function applied(
  live: ApiObject | undefined,
  config: ApiObject,
  schema: ObjectSchema,
  writer: Writer,
  conflicts: 'overrule' | 'respect',
): JsonRecord {
  const wanted = fieldsOf(config, schema);
  const entries = live?.metadata.managedFields ?? [];
  const mine = entries.find((entry) => isOwn(entry, writer));
  const others = entries.filter((entry) => !isOwn(entry, writer));
  const contested = others.map((entry) => filterLeaves(intersect(entry.fieldsV1, wanted), live, config, schema));
  if (conflicts === 'respect') refuseConflicts(others, contested);
  const kept = others
    .map((entry, index) => ({ ...entry, fieldsV1: subtract(entry.fieldsV1, contested[index] ?? {}) }))
    .filter(({ fieldsV1 }) => !isLeaf(fieldsV1));
  const elsewhere = kept.reduce((all: FieldSet, { fieldsV1 }) => union(all, fieldsV1), {});
  const abandoned = without(without(mine?.fieldsV1 ?? {}, wanted), elsewhere);
  const merged = mergeValue(live ?? {}, config, schema) as JsonRecord;
  const result = removeFields(merged, abandoned, schema) as JsonRecord & { metadata: JsonRecord };
  const entry = mine !== undefined && equalJson(mine.fieldsV1, wanted) ? mine : entryOf(writer, 'Apply', wanted);
  // In their old order, so that applying the same again changes nothing.
  const places = new Map(
    entries.map(({ manager, operation, subresource }, index) => [`${manager} ${operation} ${subresource ?? ''}`, index]),
  );
  const place = ({ manager, operation, subresource }: ManagedFieldsEntry) =>
    places.get(`${manager} ${operation} ${subresource ?? ''}`) ?? entries.length;
  result.metadata['managedFields'] = [entry, ...kept].toSorted((a, b) => place(a) - place(b));
  return result;
}

function isOwn(entry: ManagedFieldsEntry, { manager, subresource }: Writer): boolean {
  return entry.manager === manager && entry.operation === 'Apply' && entry.subresource === subresource;
}

function refuseConflicts(entries: readonly ManagedFieldsEntry[], contested: readonly FieldSet[]): void {
  const causes = entries.flatMap(({ manager, apiVersion }, index) =>
    pathsOf(contested[index] ?? {}).map(
      (field): FieldError => ({ reason: 'FieldManagerConflict', message: `conflict with "${manager}" using ${apiVersion}`, field }),
    ),
  );
  if (causes.length === 0) return;
  const lines = causes.map(({ message, field }) => `${message}: ${field}`);
  throw new ApiError(409, 'Conflict', `Apply failed with ${causes.length} conflict${causes.length === 1 ? '' : 's'}: ${lines.join('\n')}`, {
    causes,
  });
}

/** Returns a new value; the inputs are not modified. */
function mergeValue(live: unknown, config: unknown, schema: Schema): unknown {
  if (live === undefined) return cloneJson(config);
  if (schema.type === 'object' && !schema.atomic && isObject(live) && isObject(config))
    return mergeFields(live, config, (name) => schema.fields.get(name)?.schema);
  if (schema.type === 'map' && !schema.atomic && isObject(live) && isObject(config)) return mergeFields(live, config, () => schema.values);
  if (schema.type === 'list' && schema.semantics.keys !== undefined && Array.isArray(live) && Array.isArray(config))
    return mergeItems(live, config, schema);
  return cloneJson(config);
}

function mergeFields(live: JsonRecord, config: JsonRecord, schemaOf: (name: string) => Schema | undefined): JsonRecord {
  const result = cloneJson(live);
  for (const [name, value] of Object.entries(config)) result[name] = mergeValue(live[name], value, schemaOf(name) ?? { type: 'any' });
  return result;
}

/** Items keep their places; new ones are appended. */
function mergeItems(live: readonly unknown[], config: readonly unknown[], schema: ListSchema): unknown[] {
  const wanted = new Map(config.map((item) => [itemKey(item, schema), item]));
  const kept = live.map((item) => {
    const key = itemKey(item, schema);
    const change = wanted.get(key);
    wanted.delete(key);
    return change === undefined ? cloneJson(item) : mergeValue(item, change, schema.items);
  });
  return [...kept, ...Array.from(wanted.values(), cloneJson)];
}

function removeFields(value: unknown, gone: FieldSet, schema: Schema): unknown {
  for (const [key, children] of Object.entries(gone)) {
    if (key === '.') continue;
    const child = childAt(value, key, schema);
    if (child.value === undefined) continue;
    const whole = isLeaf(children) || children['.'] !== undefined;
    if (!whole) {
      removeFields(child.value, children, child.schema);
      continue;
    }
    if (isObject(value)) delete value[key.slice(2)];
    else if (Array.isArray(value)) value.splice(value.indexOf(child.value), 1);
  }
  return value;
}
