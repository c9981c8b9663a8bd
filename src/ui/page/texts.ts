/** `3 nodes`, `1 node`. */
export function count(number: number, noun: string): string {
  return `${number.toLocaleString('en')} ${noun}${number === 1 ? '' : 's'}`;
}

/** Decimal digits with separators of thousands; a count of packets may exceed 2^53. */
export function digits(text: string): string {
  return text.replace(/\B(?=(\d{3})+$)/g, ',');
}

const UNITS: readonly (readonly [seconds: number, unit: string])[] = [
  [86_400, 'd'],
  [3_600, 'h'],
  [60, 'min'],
];

/** `4 s`, `12 min`. */
export function duration(seconds: number): string {
  const [size, unit] = UNITS.find(([least]) => seconds >= least) ?? [1, 's'];
  return `${Math.round(seconds / size)} ${unit}`;
}

/** Words of a command line for a POSIX shell. */
export function commandText(words: readonly string[]): string {
  return words.map((word) => (/^[\w./:=,@-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(' ');
}
