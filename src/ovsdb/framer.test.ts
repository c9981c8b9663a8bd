import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type FrameLimits, JsonFramer } from './framer.ts';

function texts(bytes: Uint8Array, sizes: readonly number[], limits?: FrameLimits): string[] {
  const framer = new JsonFramer(limits);
  const found: string[] = [];
  let at = 0;
  for (let turn = 0; at < bytes.length; turn += 1) {
    const size = Math.max(1, sizes[turn % sizes.length] ?? 1);
    for (const frame of framer.push(bytes.slice(at, at + size))) found.push(frame.text);
    at += size;
  }
  return found;
}

const awkward = [
  '{}',
  '{"a":"}{\\"][\\\\"}',
  '{"ä":"😀","b":[[],{"c":["\\u0041"]}]}',
  '{"id":1,"result":[1,2.5e10,-9223372036854775808],"error":null}',
  '{"s":"\\\\"}',
];

describe('JsonFramer', () => {
  it('finds any JSON objects in any chunks', () => {
    const bytes = Buffer.from(awkward.join(' \r\n\t'));
    for (let cut = 1; cut < bytes.length; cut += 1) expect(texts(bytes, [cut, bytes.length])).toEqual(awkward);
  });

  it('finds any JSON objects in any chunks', () => {
    const message = fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue({ maxDepth: 6 })).map((value) => JSON.stringify(value));
    fc.assert(
      fc.property(fc.array(message, { maxLength: 5 }), fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 }), (messages, sizes) => {
        expect(texts(Buffer.from(messages.join('')), sizes)).toEqual(messages);
      }),
    );
  });

  it('keeps the bytes of a message that a later chunk completes, after changes of the chunk', () => {
    const framer = new JsonFramer();
    expect(framer.push(Buffer.from('{"a":'))).toEqual([]);
    expect(framer.push(Buffer.from('1}{'))).toEqual([{ text: '{"a":1}', wideNumbers: false, offset: 0 }]);
  });

  it('detects numbers that may be too wide for a double, and no digits in strings', () => {
    const wide = (text: string) => new JsonFramer().push(Buffer.from(text)).map((frame) => frame.wideNumbers);
    expect(wide('{"a":9007199254740993}{"a":999999999999999}{"a":"9007199254740993"}{"a":[12345678,12345678]}')).toEqual([
      true,
      false,
      false,
      false,
    ]);
    const split = new JsonFramer();
    split.push(Buffer.from('{"a":900719925'));
    expect(split.push(Buffer.from('4740993}'))[0]?.wideNumbers).toBe(true);
  });

  it.each(['x', '[1]', '"a"', '1{}', '{}]', '}', '{}\0'])('refuses %j where an object should begin', (text) => {
    expect(() => texts(Buffer.from(text), [100])).toThrow('[PROTOCOL]');
  });

  it('rejects nesting that is too deep, in one chunk or in many', () => {
    const deep = Buffer.from(`{"a":${'['.repeat(100)}`);
    const limits = { maxBytes: 1_000, maxDepth: 64 };
    expect(() => texts(deep, [1], limits)).toThrow('nested deeper than 64');
    expect(() => texts(deep, [1_000], limits)).toThrow('nested deeper than 64');
    expect(texts(Buffer.from(`{"a":${'['.repeat(63)}${']'.repeat(63)}}`), [7], limits)).toHaveLength(1);
  });

  it('refuses a message that is too long before it is complete', () => {
    const limits = { maxBytes: 100, maxDepth: 4 };
    expect(() => texts(Buffer.from(`{"a":"${'x'.repeat(200)}`), [10], limits)).toThrow('longer than 100 bytes');
    expect(() => texts(Buffer.from(`{"a":"${'x'.repeat(200)}"}`), [300], limits)).toThrow('longer than 100 bytes');
    expect(texts(Buffer.from(`{"a":"${'x'.repeat(92)}"}`), [10], limits)).toHaveLength(1);
  });

  it('refuses bytes that are not UTF-8', () => {
    expect(() => texts(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]), [10])).toThrow('not UTF-8');
  });

  it('reports the offset at which a message begins, and a bad one', () => {
    const framer = new JsonFramer({ maxBytes: 50, maxDepth: 3 });
    expect(framer.push(Buffer.from('{} {"a"')).map(({ offset }) => offset)).toEqual([0]);
    expect(framer.push(Buffer.from(':1}\n{}')).map(({ offset }) => offset)).toEqual([3, 11]);
    expect(() => framer.push(Buffer.from(' x'))).toThrow('byte 120 where a message should begin, at 14');
    const deep = new JsonFramer({ maxBytes: 50, maxDepth: 3 });
    expect(() => deep.push(Buffer.from('  {"a":[[[1]]]}'))).toThrow('message at 2 is nested deeper than 3');
  });

  it('keeps a message that comes byte by byte in little more than its own size', () => {
    const framer = new JsonFramer();
    const size = 1_000_000;
    const message = Buffer.from(`{"a":"${'x'.repeat(size)}"}`);
    const before = process.memoryUsage();
    for (let at = 0; at < message.length - 1; at += 1) framer.push(message.subarray(at, at + 1));
    const after = process.memoryUsage();
    // The chunks themselves are garbage; the buffers that are kept are outside of the heap.
    expect(after.arrayBuffers - before.arrayBuffers).toBeLessThan(4 * size);
    expect(framer.push(message.subarray(message.length - 1))[0]?.text).toHaveLength(message.length);
  });
});
