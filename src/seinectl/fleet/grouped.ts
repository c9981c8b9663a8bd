import { safeLine } from '../escape.ts';
import { count } from '../words.ts';

/** Groups items with the same text, largest group first; within a group in the original order. */
export function grouped<T>(items: readonly T[], textOf: (item: T) => string): (readonly [text: string, items: readonly T[]])[] {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const text = textOf(item);
    const group = groups.get(text);
    if (group === undefined) groups.set(text, [item]);
    else group.push(item);
  }
  return [...groups].toSorted(([a, of], [b, others]) => others.length - of.length || (a < b ? -1 : 1));
}

const NAMES_SHOWN = 5;

/** `3 nodes: node-1, node-2, node-3`; only the first of many. */
export function nodesText(names: readonly string[]): string {
  const shown = names.slice(0, NAMES_SHOWN).map((name) => safeLine(name));
  const more = names.length - shown.length;
  return `${count(names.length, 'node')}: ${shown.join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}
