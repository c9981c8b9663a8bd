import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

/*
 * The two ways through the sources that docs/architecture.md walks by hand: they lead through files and functions that are there, and
 * are short. A stop is a call into another file where all goes well; a callback is one, a return is not.
 */

const root = join(import.meta.dirname, '..', '..');
const page = readFileSync(join(root, 'docs', 'architecture.md'), 'utf8');

interface Stop {
  readonly number: number;
  /** The stop that calls; 0 for the first. */
  readonly from: number;
  readonly file: string;
  readonly functionName: string;
}

const limits = {
  add: { stops: 30, entries: 2 },
  'endpoint change': { stops: 18, entries: Number.POSITIVE_INFINITY },
} as const;

for (const [name, { stops: stopsMax, entries: entriesMax }] of Object.entries(limits)) {
  const stops = stopsOf(name);

  it(`${name}: names files and functions that are there`, () => {
    const missing = stops.filter(({ file, functionName }) => !existsSync(join(root, file)) || !declares(file, functionName));
    expect(missing.map(({ number, file, functionName }) => `${number}: ${file} ${functionName}`)).toEqual([]);
  });

  it(`${name}: goes from file to file, each called by an earlier stop`, () => {
    expect(stops.map(({ number }) => number)).toEqual(stops.map((_, index) => index + 1));
    const fileOf = new Map(stops.map(({ number, file }) => [number, file]));
    const odd = stops.filter(({ number, from, file }) => number > 1 && (from >= number || from < 1 || fileOf.get(from) === file));
    expect(odd.map(({ number }) => number)).toEqual([]);
  });

  it(`${name}: takes at most ${stopsMax} stops, and enters no room more than ${entriesMax} times`, () => {
    expect(stops.length).toBeGreaterThan(1);
    expect(stops.length).toBeLessThanOrEqual(stopsMax);
    const entries = new Map<string, number>();
    for (const { from, file } of stops) {
      const caller = stops.find(({ number }) => number === from);
      if (caller === undefined || roomOf(caller.file) !== roomOf(file)) entries.set(roomOf(file), (entries.get(roomOf(file)) ?? 0) + 1);
    }
    expect([...entries].filter(([, count]) => count > entriesMax)).toEqual([]);
  });
}

function stopsOf(name: string): readonly Stop[] {
  const [, part = ''] = page.split(`<!-- trace: ${name} -->`);
  const [table = ''] = part.split('<!-- end of trace -->');
  return Array.from(
    table.matchAll(/^\|\s*(\d+)\s*\|\s*(\d*)[^|]*\|\s*`([^`]+)`\s*\|\s*`([^`]+)`\s*\|/gm),
    ([, number, from, file = '', functionName = '']) => ({
      number: Number(number),
      from: Number(from),
      file,
      functionName,
    }),
  );
}

/** As a function, a method, a getter or a property that holds one: `Class.method` names the method. */
function declares(file: string, functionName: string): boolean {
  const text = readFileSync(join(root, file), 'utf8');
  return functionName
    .replace(/\(\)$/, '')
    .split('.')
    .every((name) => new RegExp(`(?<![\\w$])${name.replace(/[#$]/g, '\\$&')}(?![\\w$])`).test(text));
}

function roomOf(file: string): string {
  return file.split('/')[1] ?? file;
}
