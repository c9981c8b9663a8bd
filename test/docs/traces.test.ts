import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseSync } from 'oxc-parser';
import { expect, it } from 'vitest';

/*
 * Walks through the sources on the pages of docs/design: each goes through files and functions that exist, from a file that calls the
 * function, in the order in which the sources call it.
 */

const root = join(import.meta.dirname, '..', '..');

interface Stop {
  readonly number: number;
  /** The calling stop; 0 for the first. */
  readonly from: number;
  readonly file: string;
  readonly functionName: string;
}

/** Walks by page and name, with the most stops and the most entries into one room where that is part of the design. */
const walks = [
  { page: 'life-of-a-pod', name: 'add' },
  { page: 'life-of-a-pod', name: 'add with a veth pair' },
  { page: 'life-of-a-service-change', name: 'endpoint change' },
  { page: 'ovs-restart', name: 'ovs restart' },
  { page: 'life-of-a-policy-change', name: 'policy change', stopsMost: 25, entriesMost: 2 },
] as const;

for (const walk of walks) {
  const { name } = walk;
  const stops = stopsOf(walk.page, name);
  const byNumber = new Map(stops.map((stop) => [stop.number, stop]));

  it(`${name}: names files and functions that exist`, () => {
    const missing = stops.filter(({ file, functionName }) => !existsSync(join(root, file)) || !declares(file, functionName));
    expect(stops.length).toBeGreaterThan(1);
    expect(missing.map(({ number, file, functionName }) => `${number}: ${file} ${functionName}`)).toEqual([]);
  });

  it(`${name}: goes from file to file, each called by an earlier stop`, () => {
    expect(stops.map(({ number }) => number)).toEqual(stops.map((_, index) => index + 1));
    const odd = stops.filter(({ number, from, file }) => number > 1 && (from >= number || from < 1 || byNumber.get(from)?.file === file));
    expect(odd.map(({ number }) => number)).toEqual([]);
  });

  it(`${name}: has the order of calls in the calling function`, () => {
    const wrong = stops.flatMap((caller) => {
      const calls = callsIn(caller);
      const places = stops.filter(({ from }) => from === caller.number).map((stop) => ({ stop, at: calls.get(nameOf(stop)) ?? [] }));
      const known = places.filter(({ at }) => at.length > 0);
      return known.flatMap(({ stop, at }, index) => {
        const before = known[index - 1];
        return before && Math.max(...at) < Math.min(...before.at)
          ? [`${stop.number}: ${nameOf(stop)} is called before stop ${before.stop.number}`]
          : [];
      });
    });
    expect(wrong).toEqual([]);
  });

  if (!('stopsMost' in walk)) continue;
  it(`${name}: takes at most ${walk.stopsMost} stops, and enters no room more than ${walk.entriesMost} times`, () => {
    expect(stops.length).toBeLessThanOrEqual(walk.stopsMost);
    const entries = Map.groupBy(
      stops.filter(({ from, file }) => dirname(byNumber.get(from)?.file ?? '') !== dirname(file)),
      ({ file }) => dirname(file),
    );
    expect([...entries].filter(([, entered]) => entered.length > walk.entriesMost).map(([room]) => room)).toEqual([]);
  });
}

function stopsOf(page: string, name: string): readonly Stop[] {
  const text = readFileSync(join(root, 'docs', 'design', `${page}.md`), 'utf8');
  const [, part = ''] = text.split(`<!-- trace: ${name} -->`);
  const [table = ''] = part.split('<!-- end of trace -->');
  return Array.from(
    table.matchAll(/^\|\s*(\d+)\s*\|\s*(\d*)[^|]*\|\s*`([^`]+)`\s*\|\s*`([^`]+)`\s*\|/gm),
    ([, number, from, file = '', functionName = '']) => ({ number: Number(number), from: Number(from), file, functionName }),
  );
}

/** A function, a method, a getter or a property that holds a function; `Class.method` names the method. */
function declares(file: string, functionName: string): boolean {
  const text = readFileSync(join(root, file), 'utf8');
  return functionName
    .replace(/\(\)$/, '')
    .split('.')
    .every((name) => new RegExp(`(?<![\\w$])${name.replace(/[#$]/g, '\\$&')}(?![\\w$])`).test(text));
}

function nameOf({ functionName }: Stop): string {
  return functionName.split('.').at(-1) ?? functionName;
}

/**
 * Places of calls in the function of a stop and in the functions of its file that it calls, by the called name, in the order of a
 * depth-first run. Calls in callbacks count at their place in the text.
 */
function callsIn({ file, functionName }: Stop): ReadonlyMap<string, readonly number[]> {
  const functions = functionsOf(file);
  const calls = new Map<string, number[]>();
  let place = 0;
  const walk = (name: string, passed: ReadonlySet<string>): void => {
    for (const called of functions.get(name) ?? []) {
      calls.set(called, [...(calls.get(called) ?? []), place++]);
      if (functions.has(called) && !passed.has(called)) walk(called, new Set([...passed, called]));
    }
  };
  walk(functionName, new Set([functionName]));
  return calls;
}

const parsed = new Map<string, ReadonlyMap<string, readonly string[]>>();

/** Names of the functions that each function and method of a file calls, in the order of the text. */
function functionsOf(file: string): ReadonlyMap<string, readonly string[]> {
  const known = parsed.get(file);
  if (known) return known;
  const functions = new Map<string, readonly string[]>();
  visit(parseSync(file, readFileSync(join(root, file), 'utf8')).program, (node) => {
    const { type, key, id, value } = node as { type: string; key?: unknown; id?: unknown; value?: unknown };
    const body = type === 'MethodDefinition' || type === 'PropertyDefinition' ? value : type === 'FunctionDeclaration' ? node : undefined;
    const name = nameIn(type === 'FunctionDeclaration' ? id : key);
    if (body === undefined || name === undefined) return;
    const called: { readonly name: string; readonly at: number }[] = [];
    visit(body, (inner) => {
      const { type: kind, callee, end } = inner as { type: string; callee?: { property?: unknown }; end: number };
      const calledName = kind === 'CallExpression' ? (nameIn(callee) ?? nameIn(callee?.property)) : undefined;
      if (calledName !== undefined) called.push({ name: calledName, at: end });
    });
    functions.set(
      name,
      called.toSorted((a, b) => a.at - b.at).map((each) => each.name),
    );
  });
  parsed.set(file, functions);
  return functions;
}

function nameIn(node: unknown): string | undefined {
  const { type, name } = (node ?? {}) as { type?: string; name?: string };
  if (type === 'PrivateIdentifier') return `#${name}`;
  return type === 'Identifier' ? name : undefined;
}

function visit(node: unknown, see: (node: object) => void): void {
  if (typeof node !== 'object' || node === null) return;
  if ('type' in node) see(node);
  for (const child of Object.values(node)) if (typeof child === 'object') visit(child, see);
}
