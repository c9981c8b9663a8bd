import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { OpenFlowFramer } from './framer.ts';

const hello = Uint8Array.from([6, 0, 0, 8, 0, 0, 0, 1]);
const echo = Uint8Array.from([6, 2, 0, 12, 0, 0, 0, 2, 1, 2, 3, 4]);
const stream = Uint8Array.from([...hello, ...echo, ...hello]);

it('yields the same messages from chunks of every size', () => {
  for (let size = 1; size <= stream.length; size++) {
    const framer = new OpenFlowFramer();
    const messages: Uint8Array[] = [];
    for (let at = 0; at < stream.length; at += size) messages.push(...framer.push(stream.slice(at, at + size)));
    expect(messages.map((message) => [...message])).toEqual([hello, echo, hello].map((message) => [...message]));
    expect(framer.pendingBytes).toBe(0);
  }
});

it('keeps an unfinished message and reports its size', () => {
  const framer = new OpenFlowFramer();
  expect(framer.push(echo.subarray(0, 11))).toEqual([]);
  expect(framer.pendingBytes).toBe(11);
  expect(framer.push(echo.subarray(11)).map((message) => [...message])).toEqual([[...echo]]);
});

it('rejects a header that is shorter than itself', () => {
  expect(() => new OpenFlowFramer().push(Uint8Array.from([6, 0, 0, 7, 0, 0, 0, 1]))).toThrow(/\[PROTOCOL\] message length 7/);
});

it('reads a long message byte by byte in linear time', () => {
  const long = new Uint8Array(0xffff);
  long.set([6, 2, 0xff, 0xff]);
  const framer = new OpenFlowFramer();
  const messages: Uint8Array[] = [];
  for (const byte of long) messages.push(...framer.push(Uint8Array.of(byte)));
  expect(messages.map((message) => message.length)).toEqual([0xffff]);
});

it('yields the same messages however the stream is split', () => {
  const corpus = readFileSync(new URL('../../../test/fixtures/openflow-corpus.jsonl', import.meta.url), 'utf8')
    .trim()
    .split('\n')
    .map((line): Uint8Array => Buffer.from((JSON.parse(line) as { readonly hex: string }).hex, 'hex'));
  const whole = Buffer.concat(corpus);
  const expected = corpus.map((message) => Buffer.from(message).toString('hex'));
  fc.assert(
    fc.property(fc.uniqueArray(fc.nat(whole.length), { maxLength: 200 }), (cuts) => {
      const framer = new OpenFlowFramer();
      const messages: string[] = [];
      let from = 0;
      for (const to of [...cuts.toSorted((a, b) => a - b), whole.length]) {
        for (const message of framer.push(Buffer.from(whole.subarray(from, to)))) messages.push(Buffer.from(message).toString('hex'));
        from = to;
      }
      expect(messages).toEqual(expected);
      expect(framer.pendingBytes).toBe(0);
    }),
    { numRuns: 50 },
  );
});

it('yields the same messages when a stream is split in any two places', () => {
  for (let first = 0; first <= stream.length; first++)
    for (let second = first; second <= stream.length; second++) {
      const framer = new OpenFlowFramer();
      const pieces = [stream.slice(0, first), stream.slice(first, second), stream.slice(second)];
      const lengths = pieces.flatMap((piece) => framer.push(piece)).map(({ length }) => length);
      expect(lengths).toEqual([hello.length, echo.length, hello.length]);
    }
});
