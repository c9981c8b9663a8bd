import { createHash } from 'node:crypto';
import { expect, it } from 'vitest';
import { answerDatagram, endpoint, ResponderProtocol } from './responder-protocol.ts';

const identity = { pod: 'default/web-0', node: 'node-1' };
const exchange = { protocol: 'tcp', client: '10.0.0.9:4000', server: '10.0.0.2:80' } as const;
const who = `${JSON.stringify({ ...identity, ...exchange })}\n`;
const bytes = (text: string) => Buffer.from(text);
const conversation = () => new ResponderProtocol(identity, exchange);

it('answers every line with both ends, in any chunks', () => {
  const talk = conversation();
  expect(talk.push(bytes('hel'))).toEqual([]);
  expect(talk.push(bytes('lo\nagain\n'))).toEqual([
    { text: who, filler: 0, close: false },
    { text: who, filler: 0, close: false },
  ]);
  expect(talk.end()).toEqual([{ text: '', filler: 0, close: true }]);
});

it('answers a client that only connects and closes its side', () => {
  expect(conversation().end()).toEqual([{ text: who, filler: 0, close: true }]);
});

it('answers HTTP once the head is complete', () => {
  const talk = conversation();
  expect(talk.push(bytes('GET / HTTP/1.1\r\nHost: x\r\n'))).toEqual([]);
  const [reply] = talk.push(bytes('\r\n'));
  expect(reply?.text).toContain(`Content-Length: ${who.length}\r\n`);
  expect(reply?.text.endsWith(`\r\n\r\n${who}`)).toBe(true);
  expect(reply?.close).toBe(true);
});

it('reads everything after SINK and reports size and hash', () => {
  const talk = conversation();
  const payload = Buffer.alloc(100_000, 7);
  expect([talk.push(bytes('SINK\nfirst')), talk.push(payload)]).toEqual([[], []]);
  const sha256 = createHash('sha256').update('first').update(payload).digest('hex');
  expect(JSON.parse(talk.end()[0]?.text ?? '')).toMatchObject({ received: 100_005, sha256 });
});

it('sends the requested number of bytes, within bounds', () => {
  expect(conversation().push(bytes('SEND 1048576\n'))).toEqual([{ text: '', filler: 1_048_576, close: true }]);
  expect(conversation().push(bytes('SEND 999999999\n'))[0]?.filler).toBe(64 * 1024 * 1024);
});

it('closes on a line without end', () => {
  expect(conversation().push(Buffer.alloc(70_000, 65))).toEqual([{ text: '', filler: 0, close: true }]);
});

it('pads an answer to the size of its datagram', () => {
  const request = Buffer.alloc(4000, 1);
  const answer = answerDatagram(identity, { ...exchange, protocol: 'udp' }, request);
  expect(answer).toHaveLength(4000);
  expect(JSON.parse(answer.toString())).toMatchObject({ pod: 'default/web-0', received: 4000 });
});

it('writes endpoints in the usual notation', () => {
  expect([endpoint('::ffff:10.0.0.1', 80), endpoint('fd00::1', 80)]).toEqual(['10.0.0.1:80', '[fd00::1]:80']);
});
