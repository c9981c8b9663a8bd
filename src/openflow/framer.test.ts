import { expect, it } from 'vitest';
import { OpenFlowFramer } from './framer.ts';

const hello = Uint8Array.from([6, 0, 0, 8, 0, 0, 0, 1]);
const echo = Uint8Array.from([6, 2, 0, 12, 0, 0, 0, 2, 1, 2, 3, 4]);
const stream = Uint8Array.from([...hello, ...echo, ...hello]);

it('gives the same messages from chunks of every size', () => {
  for (let size = 1; size <= stream.length; size++) {
    const framer = new OpenFlowFramer();
    const messages: Uint8Array[] = [];
    for (let at = 0; at < stream.length; at += size) messages.push(...framer.push(stream.slice(at, at + size)));
    expect(messages.map((message) => [...message])).toEqual([hello, echo, hello].map((message) => [...message]));
    expect(framer.pendingBytes).toBe(0);
  }
});

it('keeps an unfinished message and says how much of it there is', () => {
  const framer = new OpenFlowFramer();
  expect(framer.push(echo.subarray(0, 11))).toEqual([]);
  expect(framer.pendingBytes).toBe(11);
  expect(framer.push(echo.subarray(11)).map((message) => [...message])).toEqual([[...echo]]);
});

it('refuses a header that is shorter than itself', () => {
  expect(() => new OpenFlowFramer().push(Uint8Array.from([6, 0, 0, 7, 0, 0, 0, 1]))).toThrow(/\[PROTOCOL\] message length 7/);
});

it('takes a long message byte by byte in linear time', () => {
  const long = new Uint8Array(0xffff);
  long.set([6, 2, 0xff, 0xff]);
  const framer = new OpenFlowFramer();
  const messages: Uint8Array[] = [];
  for (const byte of long) messages.push(...framer.push(Uint8Array.of(byte)));
  expect(messages.map((message) => message.length)).toEqual([0xffff]);
});
