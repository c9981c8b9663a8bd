import { mayUse } from '../../test/rooms.ts';

/**
 * Mermaid picture of `test/rooms.ts`. An arrow is left out where a longer way leads there too, so that the layers show;
 * dotted arrows are imports of types only.
 */
export function roomsPicture(): string {
  const lines = Object.keys(mayUse).flatMap((room) => {
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

function reaches(from: string, to: string): boolean {
  return allowed(from, 'code').some((next) => next === to || reaches(next, to));
}

function allowed(room: string, what: 'code' | 'types'): string[] {
  return (mayUse[room] ?? []).flatMap((used) => {
    const typesOnly = used.startsWith('types:');
    return typesOnly === (what === 'types') ? [used.replace('types:', '')] : [];
  });
}
