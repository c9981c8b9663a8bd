import { expect, it } from 'vitest';
import { countReplies } from './ping-stream.ts';

const reply = (sequence: number, more = '') => `64 bytes from 10.0.0.2: icmp_seq=${sequence} ttl=63 time=0.4 ms${more}\n`;
const replies = (...sequences: number[]) =>
  `PING 10.0.0.2 (10.0.0.2) 56(84) bytes of data.\n${sequences.map((one) => reply(one)).join('')}`;

it('counts a packet that never came back as lost', () => {
  expect(countReplies(replies(1, 2, 4, 5))).toEqual({ sent: 5, lost: 1 });
});

it('does not count the packet in flight at the end', () => {
  expect(
    countReplies(`${replies(1, 2, 3)}\n--- 10.0.0.2 ping statistics ---\n4 packets transmitted, 3 received, 25% packet loss\n`),
  ).toEqual({
    sent: 3,
    lost: 0,
  });
});

it('counts a duplicate once, and no errors as replies', () => {
  const said = `${replies(1, 2)}${reply(2, ' (DUP!)')}From 10.0.0.1 icmp_seq=3 Destination Host Unreachable\n${reply(4)}`;
  expect(countReplies(said)).toEqual({ sent: 4, lost: 1 });
});

it('is zero without replies', () => {
  expect(countReplies('')).toEqual({ sent: 0, lost: 0 });
});
