import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { LoopTurns } from '../../../base/async/loop-turns.ts';
import { JsonCutter, type JsonLimits, type JsonShape } from './json-cutter.ts';
import { readJson, type Unreadable } from './json-stream.ts';

const limits: JsonLimits = { maxValueBytes: 1_000, maxDepth: 8, maxEnvelopeBytes: 200 };

async function* asFragments(text: string, sizes: readonly number[]): AsyncGenerator<Uint8Array> {
  const bytes = Buffer.from(text);
  for (let at = 0, index = 0; at < bytes.length; index++) {
    const size = sizes[index % sizes.length] ?? 1;
    yield bytes.subarray(at, at + size);
    at += size;
  }
}

async function read(shape: JsonShape, text: string, sizes: readonly number[] = [7]) {
  const values: unknown[] = [];
  const unreadable: Unreadable[] = [];
  const envelope = await readJson(shape, asFragments(text, sizes), {
    limits,
    turns: new LoopTurns(5),
    onValue: (value) => values.push(value),
    onUnreadable: (what) => unreadable.push(what),
  });
  return { values, unreadable, envelope };
}

describe('a list', () => {
  it('yields its items, and itself without them', async () => {
    const list = { kind: 'NodeList', metadata: { resourceVersion: '5', items: ['x'] }, items: [{ a: '}]"\\' }, { b: { items: [1] } }] };
    expect(await read('list', JSON.stringify(list, null, 1))).toEqual({
      values: list.items,
      unreadable: [],
      envelope: { ...list, items: [] },
    });
  });

  it('may have its members in any order, no items, or null items', async () => {
    expect((await read('list', '{"apiVersion":"v1","items":[{"a":1}],"kind":"List","metadata":{"resourceVersion":"7"}}')).envelope).toEqual(
      {
        apiVersion: 'v1',
        items: [],
        kind: 'List',
        metadata: { resourceVersion: '7' },
      },
    );
    expect((await read('list', '{"items":[],"a":1}')).values).toEqual([]);
    expect((await read('list', '{"a":"items","items":null}')).envelope).toEqual({ a: 'items', items: null });
  });

  it('is the same in every chunking', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 })), { maxLength: 4 }),
        fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 }),
        async (items, sizes) => {
          const small = items.filter((item) => Buffer.byteLength(JSON.stringify(item)) <= 900);
          const text = JSON.stringify({ metadata: { resourceVersion: '1' }, items: small, after: '"items":[' });
          const { values, envelope, unreadable } = await read('list', text, sizes);
          expect(unreadable).toEqual([]);
          expect(JSON.stringify(values)).toBe(JSON.stringify(small));
          expect(envelope).toEqual({ metadata: { resourceVersion: '1' }, items: [], after: '"items":[' });
        },
      ),
    );
  });

  it('is rejected in every truncation', async () => {
    const text = '{"metadata":{"resourceVersion":"1"},"items":[{"a":"x"},{"b":[1]}],"z":{}}';
    for (let length = 0; length < text.length; length++)
      await expect(read('list', text.slice(0, length)), text.slice(0, length)).rejects.toThrow(/PROTOCOL/);
  });

  it('is rejected if it is another value', async () => {
    for (const text of ['[]', '<html>', '{"items":[1]}', '{"items":["a"]}', '{}{}x', '{"items":[{}]]}}'])
      await expect(read('list', text), text).rejects.toThrow(/PROTOCOL/);
    await expect(read('list', `{"x":"${'y'.repeat(300)}","items":[]}`)).rejects.toThrow(/besides the items/);
  });
});

describe('a stream of values', () => {
  it('yields them one by one', async () => {
    expect((await read('values', '{"a":1}\n{"b":2}{"c":"\\"}{"}\r\n\n')).values).toEqual([{ a: 1 }, { b: 2 }, { c: '"}{' }]);
  });

  it('skips values that are too large, too deep or malformed, and continues', async () => {
    const large = JSON.stringify({ x: 'y'.repeat(2_000) });
    const deep = `{"a":${'['.repeat(10)}${']'.repeat(10)}}`;
    expect(await read('values', `${large}\n${deep}\n{nonsense}\n{"a":1}`)).toEqual({
      values: [{ a: 1 }],
      unreadable: [
        { why: 'too large', bytes: large.length },
        { why: 'too deep', bytes: deep.length },
        { why: 'no JSON', bytes: 10 },
      ],
      envelope: undefined,
    });
  });

  it('does not keep skipped values', () => {
    const cutter = new JsonCutter('values', limits);
    const before = process.memoryUsage().arrayBuffers;
    const chunk = Buffer.alloc(1 << 20, 'x');
    Array.from(cutter.push(Buffer.from('{"a":"')));
    for (let count = 0; count < 64; count++) Array.from(cutter.push(chunk));
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(16 << 20);
    expect(Array.from(cutter.push(Buffer.from('"}')))).toEqual([{ skipped: 'too large', length: 64 * (1 << 20) + 8 }]);
  });

  it('ends with an error inside a value, or at garbage', async () => {
    await expect(read('values', '{"a":1}{"b"')).rejects.toThrow(/inside an object/);
    await expect(read('values', '{"a":1} garbage')).rejects.toThrow(/where an object must begin/);
    await expect(read('values', '{"a":1},{"b":1}')).rejects.toThrow(/where an object must begin/);
  });
});
