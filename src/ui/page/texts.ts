/** `3 nodes`, `1 node`. */
export function count(number: number, noun: string): string {
  return `${number.toLocaleString('en')} ${noun}${number === 1 ? '' : 's'}`;
}

/** How many verdicts a second computation, which shares no code with the first, confirms. */
export function confirmedText(confirmed: number, contradicted: number): string {
  const against = contradicted === 0 ? '' : `, and contradicts ${contradicted.toLocaleString('en')}: report this`;
  return `An independent second computation confirms ${count(confirmed, 'verdict')}${against}.`;
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

/** `950`, `1.2K`, `13M`: for a narrow cell. */
export function shortNumber(number: number): string {
  return new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 }).format(number);
}

/** `9.2 MB`. @param bytes digits */
export function bytesText(bytes: string): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  const power = Math.min(Math.floor((bytes.length - 1) / 3), units.length - 1);
  const value = Number(bytes) / 1_000 ** power;
  return `${power === 0 ? value : value.toFixed(1)} ${units[power]}`;
}

/** Mean rate of a number in a time, with two digits: `12/s`, `3/min`, `5/h`. */
export function rateText(number: number, seconds: number): string {
  const rate = number / seconds;
  const [value, unit] = rate >= 0.1 || number === 0 ? [rate, 's'] : rate >= 1 / 60 ? [rate * 60, 'min'] : [rate * 3_600, 'h'];
  return `${new Intl.NumberFormat('en', { maximumSignificantDigits: 2 }).format(value)}/${unit}`;
}

/** Mean rate of bytes in a time: `1.2 kB/s`. @param bytes digits */
export function byteRateText(bytes: string, seconds: number): string {
  return `${bytesText(String(BigInt(bytes) / BigInt(seconds)))}/s`;
}
