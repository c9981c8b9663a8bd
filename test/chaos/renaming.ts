import { createHash } from 'node:crypto';
import { type Cut, cut, type NumberCut } from './number-pool.ts';

/** Differences between two nodes after their allocated numbers are renamed. */
export interface Difference {
  /** Lines of the first only, with its own numbers. */
  readonly more: readonly string[];
  /** Lines of the second only. */
  readonly missing: readonly string[];
}

/** Enough rounds that a number is distinguished by lines four steps away. */
const roundsMost = 12;
const triesMost = 400;

type Colours = ReadonlyMap<string, string>;

interface Side {
  readonly lines: readonly string[];
  readonly cuts: readonly Cut[];
  /** Every number with the lines that contain it, by their index. */
  readonly uses: ReadonlyMap<string, readonly number[]>;
}

/**
 * Searches a renaming of allocated numbers, one to one within each kind, that turns the first lines into the second. Numbers are
 * distinguished by their lines (colour refinement, Weisfeiler and Leman); equal ones are tried. The result is checked by renaming every
 * line.
 */
export function compareRenamed(first: readonly string[], second: readonly string[]): Difference {
  const [a, b] = [sideOf(first), sideOf(second)];
  const start: readonly [Colours, Colours] = [refine(a, initial(a)), refine(b, initial(b))];
  const coarse = byText(a, b, painted(a, start[0]), painted(b, start[1]));
  if (coarse.more.length > 0 || coarse.missing.length > 0) return coarse;
  const renaming = search(a, b, start, { left: triesMost });
  if (renaming !== undefined) return { more: [], missing: [] };
  return { more: ['no renaming of allocated numbers makes these the expected ones, though each line matches one of them'], missing: [] };
}

function search(
  a: Side,
  b: Side,
  [left, right]: readonly [Colours, Colours],
  tries: { left: number },
): ReadonlyMap<string, string> | undefined {
  if (tries.left-- <= 0 || !sameColours(left, right)) return undefined;
  const open = classesOf(left).find(([, members]) => members.length > 1);
  if (open === undefined) return checked(a, b, left, right);
  const [colour, [chosen = '']] = open;
  for (const candidate of classesOf(right).find(([other]) => other === colour)?.[1] ?? []) {
    const next = [refine(a, new Map(left).set(chosen, 'chosen')), refine(b, new Map(right).set(candidate, 'chosen'))] as const;
    const found = search(a, b, next, tries);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** The renaming, if every line of the first is a line of the second under it. */
function checked(a: Side, b: Side, left: Colours, right: Colours): ReadonlyMap<string, string> | undefined {
  const byColour = new Map([...right].map(([key, colour]) => [colour, key]));
  const renaming = new Map([...left].map(([key, colour]) => [key, byColour.get(colour) ?? '']));
  const renamed = a.cuts.map((parts) => parts.map((part) => (typeof part === 'string' ? part : renaming.get(keyOf(part)))).join(''));
  const wanted = b.cuts.map((parts) => parts.map((part) => (typeof part === 'string' ? part : keyOf(part))).join(''));
  return renamed.toSorted().join('\n') === wanted.toSorted().join('\n') ? renaming : undefined;
}

function sideOf(lines: readonly string[]): Side {
  const cuts = lines.map(cut);
  const uses = new Map<string, number[]>();
  for (const [index, parts] of cuts.entries())
    for (const part of parts) {
      if (typeof part === 'string') continue;
      const key = keyOf(part);
      const known = uses.get(key);
      if (known === undefined) uses.set(key, [index]);
      else if (known.at(-1) !== index) known.push(index);
    }
  return { lines, cuts, uses };
}

function keyOf({ kind, of, value }: NumberCut): string {
  return `${kind} ${of} ${value}`;
}

/** All of one kind have one colour at first. */
function initial({ uses }: Side): Colours {
  return new Map([...uses.keys()].map((key) => [key, key.slice(0, key.lastIndexOf(' '))]));
}

/** Refines the colour of every number by its lines and the colours in them, until the number of colours stays. */
function refine(side: Side, start: Colours): Colours {
  let colours = start;
  let count = new Set(start.values()).size;
  for (let round = 0; round < roundsMost; round++) {
    const next = new Map([...side.uses].map(([key, lines]) => [key, digest(`${colours.get(key)}\n${around(side, colours, key, lines)}`)]));
    const distinct = new Set(next.values()).size;
    colours = next;
    if (distinct === count && round > 1) break;
    count = distinct;
  }
  return colours;
}

function around({ cuts }: Side, colours: Colours, key: string, lines: readonly number[]): string {
  return lines
    .map((index) => paint(cuts[index] ?? [], colours, key))
    .toSorted()
    .join('\n');
}

function paint(parts: Cut, colours: Colours, self?: string): string {
  return parts
    .map((part) => (typeof part === 'string' ? part : keyOf(part) === self ? '<this>' : `<${colours.get(keyOf(part))}>`))
    .join('');
}

function painted({ cuts }: Side, colours: Colours): readonly string[] {
  return cuts.map((parts) => paint(parts, colours));
}

/**
 * Lines whose colours are fewer on the other side. All lines with a number of a differing line have another colour: those that differ apart
 * from numbers come first, alone.
 */
function byText(a: Side, b: Side, left: readonly string[], right: readonly string[]): Difference {
  const bare = [bareOf(a), bareOf(b)] as const;
  const distinct = { more: surplus(a.lines, bare[0], bare[1]), missing: surplus(b.lines, bare[1], bare[0]) };
  if (distinct.more.length > 0 || distinct.missing.length > 0) return distinct;
  return { more: surplus(a.lines, left, right), missing: surplus(b.lines, right, left) };
}

function bareOf({ cuts }: Side): readonly string[] {
  return cuts.map((parts) => parts.map((part) => (typeof part === 'string' ? part : `<${part.kind}>`)).join(''));
}

/** Lines of which there are more of a colour here than there. */
export function surplus(lines: readonly string[], looks: readonly string[], others: readonly string[]): string[] {
  const there = new Map<string, number>();
  for (const look of others) there.set(look, (there.get(look) ?? 0) + 1);
  return lines.filter((_, index) => {
    const look = looks[index] ?? '';
    const left = there.get(look) ?? 0;
    there.set(look, left - 1);
    return left <= 0;
  });
}

function sameColours(left: Colours, right: Colours): boolean {
  return [...left.values()].toSorted().join() === [...right.values()].toSorted().join();
}

function classesOf(colours: Colours): [string, string[]][] {
  const classes = new Map<string, string[]>();
  for (const [key, colour] of colours) classes.set(colour, [...(classes.get(colour) ?? []), key]);
  return [...classes].toSorted(([one], [other]) => (one < other ? -1 : 1));
}

function digest(text: string): string {
  return createHash('sha1').update(text).digest('base64').slice(0, 16);
}
