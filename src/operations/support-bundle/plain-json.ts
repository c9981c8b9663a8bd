/** JSON for humans: addresses and networks as their text, large numbers as text, bytes as hexadecimal digits. */
export function plainJson(value: unknown): string {
  return `${JSON.stringify(value, plain, 2)}\n`;
}

/** The same as one line. */
export function plainLine(value: unknown): string {
  return JSON.stringify(value, plain);
}

function plain(_: string, value: unknown): unknown {
  if (typeof value === 'bigint') return value.toString();
  if (value instanceof Map) return Object.fromEntries(value);
  if (value instanceof Set) return [...value];
  if (value instanceof Uint8Array) return Buffer.from(value).toString('hex');
  if (typeof value === 'object' && value !== null && 'text' in value && 'family' in value) return value.text;
  return value;
}
