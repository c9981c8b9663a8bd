import { mayUse } from '../../test/rooms.ts';

/**
 * Mermaid picture of `test/rooms.ts`, without the folders inside rooms. An arrow is left out where a longer way leads there too, so that
 * the layers show; dotted arrows are imports of types only.
 */
export function roomsPicture(): string {
  const rooms = [...new Set(Object.keys(mayUse).map(roomOf))];
  const lines = rooms.flatMap((room) => {
    const direct = directRooms(room).map((used) => `  ${room} --> ${used}`);
    const types = allowed(room, 'types').map((used) => `  ${room} -.-> ${used}`);
    return [...direct, ...types];
  });
  return `\`\`\`mermaid\nflowchart TD\n${lines.join('\n')}\n\`\`\``;
}

function directRooms(room: string): string[] {
  const used = allowed(room, 'code');
  return used.filter((to) => !used.some((through) => through !== to && reaches(through, to)));
}

function reaches(from: string, to: string, passed: ReadonlySet<string> = new Set()): boolean {
  return allowed(from, 'code').some((next) => next === to || (!passed.has(next) && reaches(next, to, new Set([...passed, from]))));
}

/** What a room may import, its folders included. */
function allowed(room: string, what: 'code' | 'types'): string[] {
  const used = Object.entries(mayUse).flatMap(([folder, rooms]) => (roomOf(folder) === room ? rooms : []));
  const code = new Set(used.filter((each) => !each.startsWith('types:')).map(roomOf));
  const types = new Set(used.filter((each) => each.startsWith('types:')).map((each) => roomOf(each.replace('types:', ''))));
  return [...(what === 'code' ? code : [...types].filter((each) => !code.has(each)))].filter((each) => each !== room);
}

function roomOf(folder: string): string {
  return folder.split('/')[0] ?? folder;
}
