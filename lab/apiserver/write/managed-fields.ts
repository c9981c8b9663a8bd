import type { ApiObject, ManagedFieldsEntry } from '../object/api-object.ts';
import { defined } from '../object/json.ts';
import { type ApiResource, apiVersionOf } from '../resource/resource.ts';
import { compareFields, isLeaf, subtract, union } from './field-sets.ts';

export interface Writer {
  readonly manager: string;
  readonly subresource: string | undefined;
  /** RFC 3339. */
  readonly time: string;
  readonly resource: ApiResource;
}

/**
 * Updates ownership after a write other than an apply: the writer gains the changed fields, the other managers lose them.
 *
 * @returns nothing for kinds that are stored under another version's schema (events): those are not applied
 */
export function trackUpdate(resource: ApiResource, now: ApiObject, before: ApiObject | undefined, writer: Writer): ManagedFieldsEntry[] {
  if (resource.toStored !== undefined) return [];
  const { changed, removed } = compareFields(owned(resource, before, writer), owned(resource, now, writer), resource.schema);
  const old = before?.metadata.managedFields ?? [];
  if (isLeaf(changed) && isLeaf(removed)) return [...old];
  const gone = union(changed, removed);
  const others = old.filter((entry) => !isSame(entry, writer)).map((entry) => ({ ...entry, fieldsV1: subtract(entry.fieldsV1, gone) }));
  const own = old.find((entry) => isSame(entry, writer))?.fieldsV1 ?? {};
  const mine = entryOf(writer, 'Update', union(subtract(own, removed), changed));
  return [...others, mine].filter(({ fieldsV1 }) => !isLeaf(fieldsV1));
}

/** Status belongs to the writers of the subresource: what the server itself sets there on other writes has no owner. */
function owned(resource: ApiResource, object: ApiObject | undefined, { subresource }: Writer): Omit<ApiObject, 'status'> | undefined {
  if (object === undefined || subresource !== undefined || !resource.subresources.includes('status')) return object;
  const { status: _status, ...rest } = object;
  return rest;
}

export function entryOf(
  { manager, subresource, time, resource }: Writer,
  operation: 'Apply' | 'Update',
  fieldsV1: ManagedFieldsEntry['fieldsV1'],
): ManagedFieldsEntry {
  return defined({
    manager,
    operation,
    apiVersion: apiVersionOf(resource),
    time,
    fieldsType: 'FieldsV1' as const,
    fieldsV1,
    subresource,
  }) as ManagedFieldsEntry;
}

function isSame(entry: ManagedFieldsEntry, { manager, subresource, resource }: Writer): boolean {
  return (
    entry.manager === manager &&
    entry.operation === 'Update' &&
    entry.subresource === subresource &&
    entry.apiVersion === apiVersionOf(resource)
  );
}
