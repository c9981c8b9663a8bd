import { compareFields, isLeaf, subtract, union } from './field-sets.ts';
import { defined } from './json.ts';
import type { KubeObject, ManagedFieldsEntry } from './kube-object.ts';
import { apiVersionOf, type Resource } from './resource.ts';

export interface Writer {
  readonly manager: string;
  readonly subresource: string | undefined;
  /** RFC 3339. */
  readonly time: string;
  readonly resource: Resource;
}

/**
 * Who owns what after a write that was no apply: the writer gains what changed, everybody else loses it.
 *
 * @returns nothing for kinds that are stored under another version's schema (events): nobody applies those
 */
export function trackUpdate(resource: Resource, now: KubeObject, before: KubeObject | undefined, writer: Writer): ManagedFieldsEntry[] {
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

/** Status belongs to those who write the subresource: what the server itself puts there on other writes has no owner. */
function owned(resource: Resource, object: KubeObject | undefined, { subresource }: Writer): Omit<KubeObject, 'status'> | undefined {
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
