/** Returns the first names of a list as text, with the number of the others. Pure. */
export function firstNames(names: readonly string[], most: number): string {
  const others = names.length - most;
  return `${names.slice(0, most).join(', ')}${others > 0 ? ` and ${others} more` : ''}`;
}
