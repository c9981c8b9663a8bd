import type { Bucket, GroupType } from '../groups/bucket.ts';
import type { Group, GroupSelection } from '../groups/group.ts';
import { type AnyValue, requireField } from '../match/oxm.ts';
import { printActions } from './action-text.ts';
import { fieldWord } from './field-names.ts';
import { printFieldValue, printPort, type TextNames } from './value-text.ts';

/** Names of the types in ovs-ofctl(8) "Group Syntax". */
export const groupTypeWords: Readonly<Record<GroupType, string>> = {
  all: 'all',
  select: 'select',
  indirect: 'indirect',
  fastFailover: 'ff',
};

/** Prints a group like a line of `ovs-ofctl dump-groups`, without the leading space. */
export function printGroup(group: Group, names: TextNames = {}): string {
  const selection = group.selection === undefined ? [] : printSelection(group.selection, names);
  const buckets = group.buckets.map((bucket) => `bucket=${printBucket(bucket, names)}`);
  return [`group_id=${group.id}`, `type=${groupTypeWords[group.type]}`, ...selection, ...buckets].join(',');
}

export function printBucket(bucket: Bucket, names: TextNames = {}): string {
  const parts = [`bucket_id:${bucket.id}`];
  // The tool omits a weight of 1, the default.
  if (bucket.weight !== undefined && bucket.weight !== 1) parts.push(`weight:${bucket.weight}`);
  if (bucket.watchPort !== undefined) parts.push(`watch_port:${printPort(bucket.watchPort, names)}`);
  if (bucket.watchGroup !== undefined) parts.push(`watch_group:${bucket.watchGroup}`);
  return [...parts, `actions=${printActions(bucket.actions, names)}`].join(',');
}

function printSelection({ method, parameter, fields }: GroupSelection, names: TextNames): string[] {
  const parts = [`selection_method=${method}`];
  if (parameter !== undefined && parameter !== 0n) parts.push(`selection_method_param=${parameter}`);
  const given = Object.entries(fields ?? {}) as [string, AnyValue][];
  if (given.length === 0) return parts;
  const words = given.map(([name, value]) => printSelectionField(name, value, names));
  return [...parts, words.length === 1 ? `fields=${words[0]}` : `fields(${words.join(',')})`];
}

/** A field with all bits set is printed as its name alone. */
function printSelectionField(name: string, value: AnyValue, names: TextNames): string {
  if (name === 'unknown') return `unknown(${Buffer.from(value as Uint8Array).toString('hex')})`; // TLVs without a row, in wire form
  const field = requireField(name);
  const isWhole = value === field.fullNumber || value === field.fullBigint;
  return isWhole ? fieldWord(field.name) : `${fieldWord(field.name)}=${printFieldValue(name, value, undefined, names)}`;
}
