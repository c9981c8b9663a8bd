/**
 * As much of the protocol buffers wire format as the runtime's API takes.
 * Source: Protocol Buffers documentation, "Encoding": tag = number << 3 | wire type; 0 varint, 1 eight octets, 2 length and octets, 5 four octets.
 */

type Octets = Uint8Array;

const wireTypes = { varint: 0, fixed64: 1, bytes: 2, fixed32: 5 } as const;

/** Fields of a message, one after another. */
const joined = (...fields: readonly Octets[]): Octets => Buffer.concat(fields);

/** A field that holds text; empty text is left out, as proto3 wants. */
export const text = (number: number, value: string): Octets => (value === '' ? joined() : bytes(number, Buffer.from(value, 'utf8')));

export const texts = (number: number, values: readonly string[]): Octets =>
  joined(...values.map((value) => bytes(number, Buffer.from(value, 'utf8'))));

/** @param value not negative, at most 2^53 - 1 */
export const whole = (number: number, value: number): Octets =>
  value === 0 ? joined() : joined(varint(tag(number, wireTypes.varint)), varint(value));

export const message = (number: number, ...fields: readonly Octets[]): Octets => bytes(number, joined(...fields));

export const textMap = (number: number, entries: Readonly<Record<string, string>>): Octets =>
  joined(...Object.entries(entries).map(([key, value]) => message(number, text(1, key), text(2, value))));

const tag = (number: number, wireType: number): number => number * 8 + wireType;

const bytes = (number: number, value: Octets): Octets => joined(varint(tag(number, wireTypes.bytes)), varint(value.length), value);

function varint(value: number): Octets {
  const octets = [];
  let left = value;
  for (; left >= 0x80; left = Math.floor(left / 0x80)) octets.push((left % 0x80) | 0x80);
  return Uint8Array.from([...octets, left]);
}

/** A received message, asked field by field; what was not sent reads as empty, as proto3 wants. */
export class Received {
  readonly #fields = new Map<number, (number | Octets)[]>();

  /** @throws Error if the octets are no message */
  constructor(octets: Octets) {
    for (let at = 0; at < octets.length; ) {
      const [key, afterKey] = readVarint(octets, at);
      const [value, next] = readValue(octets, afterKey, key % 8);
      const number = Math.floor(key / 8);
      this.#fields.set(number, [...(this.#fields.get(number) ?? []), value]);
      at = next;
    }
  }

  whole(number: number): number {
    const value = this.#fields.get(number)?.at(-1);
    return typeof value === 'number' ? value : 0;
  }

  texts(number: number): readonly string[] {
    return this.#octets(number).map((value) => Buffer.from(value).toString('utf8'));
  }

  text(number: number): string {
    return this.texts(number).at(-1) ?? '';
  }

  messages(number: number): readonly Received[] {
    return this.#octets(number).map((value) => new Received(value));
  }

  message(number: number): Received {
    return this.messages(number).at(-1) ?? new Received(joined());
  }

  #octets(number: number): readonly Octets[] {
    return (this.#fields.get(number) ?? []).filter((value) => typeof value !== 'number');
  }
}

/** @returns the value and where the next field begins */
function readValue(octets: Octets, at: number, wireType: number): [number | Octets, number] {
  if (wireType === wireTypes.varint) return readVarint(octets, at);
  const [length, start] = wireType === wireTypes.bytes ? readVarint(octets, at) : [{ 1: 8, 5: 4 }[wireType] ?? -1, at];
  if (length < 0 || start + length > octets.length) throw new Error(`no protocol buffer: wire type ${wireType} at octet ${at}`);
  return [octets.subarray(start, start + length), start + length];
}

/** Beyond 2^53 the value is rounded: nothing we read needs more. */
function readVarint(octets: Octets, start: number): [number, number] {
  let value = 0;
  for (let index = 0; index < 10; index++) {
    const octet = octets[start + index];
    if (octet === undefined) break;
    value += (octet % 0x80) * 0x80 ** index;
    if (octet < 0x80) return [value, start + index + 1];
  }
  throw new Error(`no protocol buffer: a number without end at octet ${start}`);
}
