import type { Bucket, GroupType } from '../groups/bucket.ts';
import type { Group, GroupSelection } from '../groups/group.ts';
import type { Match } from '../match/match.ts';
import { type AnyValue, requireField } from '../match/oxm.ts';
import { groupTypeWords } from './group-text.ts';
import { parseActions } from './parse-action.ts';
import { fieldCalled, parseFieldValue, parsePort, type TextNumbers } from './parse-value.ts';
import { badText, callOf, cutAt, parseBigint, parseNumber, splitTop } from './scan.ts';

const typesByWord = new Map((Object.entries(groupTypeWords) as [GroupType, string][]).map(([type, word]) => [word, type]));
typesByWord.set('fast_failover', 'fastFailover');

/**
 * Reads one group of ovs-ofctl(8) "Group Syntax". Buckets without an id are numbered from 0.
 *
 * @throws SeineError `INVALID_INPUT` that quotes what was not understood
 */
export function parseGroup(text: string, numbers: TextNumbers = {}): Group {
  const [head = '', ...bucketTexts] = text.split(/,?\s*bucket=/);
  let id: number | undefined;
  let type: GroupType = 'all';
  let selection: GroupSelection | undefined;
  for (const part of splitTop(head, ', ')) {
    const { before, after = '' } = cutAt(part, '=');
    if (before === 'group_id') id = parseNumber(after, 0xffff_ffff, before);
    else if (before === 'type') type = typesByWord.get(after) ?? unknownType(after);
    else selection = { method: 'hash', ...selection, ...parseSelectionPart(part, numbers) };
  }
  if (id === undefined) throw badText('group without group_id', text);
  const buckets = bucketTexts.map((bucket, index) => parseBucket(bucket, index, type, numbers));
  return { id, type, ...(selection === undefined ? {} : { selection }), buckets };
}

function unknownType(word: string): never {
  throw badText('no group type', word);
}

function parseSelectionPart(part: string, numbers: TextNumbers): Partial<GroupSelection> {
  const call = callOf(part);
  if (call?.name === 'fields') return { fields: parseFields(call.inside, numbers) };
  const { before, after = '' } = cutAt(part, '=');
  if (before === 'selection_method') return { method: after };
  if (before === 'selection_method_param') return { parameter: parseBigint(after, 64, before) };
  if (before === 'fields') return { fields: parseFields(after, numbers) };
  throw badText('part of a group', part);
}

function parseFields(text: string, numbers: TextNumbers): Match {
  const fields: Record<string, AnyValue> = {};
  for (const part of splitTop(text, ',')) {
    const { before, after } = cutAt(part, '=');
    const name = fieldCalled(before);
    if (name === undefined) throw badText('no such field', part);
    const { fullNumber, fullBigint, bits } = requireField(name);
    fields[name] = after === undefined ? (bits > 48 ? fullBigint : fullNumber) : parseFieldValue(name, after, numbers).value;
  }
  return fields as Match; // the row of each name determines the type of its value
}

function parseBucket(text: string, index: number, type: GroupType, numbers: TextNumbers): Bucket {
  const { before, after } = splitActions(text);
  let bucket: Omit<Bucket, 'actions'> = { id: index, ...(type === 'select' ? { weight: 1 } : {}) };
  for (const part of splitTop(before, ', ')) {
    const [name = '', value = ''] = part.split(/[:=]/);
    if (name === 'bucket_id') bucket = { ...bucket, id: parseNumber(value, 0xffff_ff00, name) };
    else if (name === 'weight') bucket = { ...bucket, weight: parseNumber(value, 0xffff, name) };
    else if (name === 'watch_port') bucket = { ...bucket, watchPort: parsePort(value, numbers) };
    else if (name === 'watch_group') bucket = { ...bucket, watchGroup: parseNumber(value, 0xffff_ffff, name) };
    else throw badText('part of a bucket', part);
  }
  return { ...bucket, actions: parseActions(after, numbers) };
}

/** `actions=` may be left out before the first action. */
function splitActions(text: string): { readonly before: string; readonly after: string } {
  const { before, after } = cutAt(text, 'actions=');
  if (after !== undefined) return { before, after };
  const parts = splitTop(text, ',');
  const first = parts.findIndex((part) => !/^(bucket_id|weight|watch_port|watch_group)[:=]/.test(part));
  return first < 0 ? { before: text, after: '' } : { before: parts.slice(0, first).join(','), after: parts.slice(first).join(',') };
}
