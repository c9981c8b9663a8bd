import { areas, floors } from '../../test/rooms.ts';

/**
 * Mermaid picture of the areas in `test/rooms.ts`, one row per floor. An arrow is omitted if a longer path leads to the same area, so that
 * the picture stays readable; the table has all of them.
 */
export function areasPicture(): string {
  const rows = floors.map((floor, number) => `  subgraph floor${number}[" "]\n    direction LR\n    ${floor.join('\n    ')}\n  end`);
  const arrows = Object.keys(areas).flatMap((area) => shortest(area).map((used) => `  ${area} --> ${used}`));
  return `\`\`\`mermaid\nflowchart TD\n${[...rows, ...arrows].join('\n')}\n\`\`\``;
}

function shortest(area: string): string[] {
  const used = areas[area] ?? [];
  return used.filter((to) => !used.some((through) => through !== to && reaches(through, to)));
}

function reaches(from: string, to: string): boolean {
  return (areas[from] ?? []).some((next) => next === to || reaches(next, to));
}
