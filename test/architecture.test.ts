import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { expect, it } from 'vitest';
import { mayUse } from './rooms.ts';

const src = resolve(import.meta.dirname, '..', 'src');

it('every room is in the table', () => {
  expect(Object.keys(mayUse).toSorted()).toEqual(expect.arrayContaining(readdirSync(src).toSorted()));
});

for (const [room, allowed] of Object.entries(mayUse)) {
  it(`${room} uses only ${allowed.join(', ') || 'nothing'}`, () => {
    expect(
      importsOf(room).filter(
        ({ used, typeOnly }) => used !== room && !allowed.includes(used) && !(typeOnly && allowed.includes(`types:${used}`)),
      ),
    ).toEqual([]);
  });

  it(`${room} is allowed nothing that it does not need`, () => {
    if (!existsSync(join(src, room))) return; // planned
    const needed = new Set(importsOf(room).map(({ used }) => used));
    const rooms = allowed.map((each) => each.replace('types:', '')).filter((each) => existsSync(join(src, each)));
    expect(rooms.filter((each) => !needed.has(each))).toEqual([]);
  });
}

/** Imports between rooms; tests beside the code may use what they like. */
function importsOf(room: string): { file: string; used: string; typeOnly: boolean }[] {
  const folder = join(src, room);
  if (!existsSync(folder)) return [];
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(
    (file) => file.endsWith('.ts') && !file.endsWith('.test.ts'),
  );
  return files.flatMap((file) => {
    const path = join(folder, file);
    const statements = readFileSync(path, 'utf8').matchAll(
      /(?:^|\n)\s*(import|export)(\s+type)?\s[^'"]*?from\s*['"](\.[^'"]+)['"]|import\s*\(?\s*['"](\.[^'"]+)['"]/g,
    );
    return Array.from(statements, ([, , type, from, dynamic]) => {
      const [used = ''] = relative(src, resolve(dirname(path), from ?? dynamic ?? '')).split('/');
      return { file: relative(src, path), used, typeOnly: type !== undefined };
    });
  });
}
