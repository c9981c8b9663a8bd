import { afterEach, beforeEach, expect, it } from 'vitest';
import { reply, ScriptedSwitch } from '../../../test/support/scripted-switch.ts';
import { bytesOf } from '../../base/bytes/bytes.ts';
import { writeEmpty } from '../control.ts';
import { messageType, readHeader } from '../protocol.ts';

let peer: ScriptedSwitch;

beforeEach(async () => {
  peer = await ScriptedSwitch.listen();
});
afterEach(() => peer.close());

const features = bytesOf((w) => writeEmpty(w, 'featuresRequest'));

it('finds its answer among others that come out of order', async () => {
  const asked: number[] = [];
  peer.answer = (heard, socket) => {
    const { type, xid } = readHeader(heard);
    if (type !== messageType.featuresRequest) return;
    asked.push(xid);
    if (asked.length === 3)
      for (const each of asked.toReversed()) socket.write(reply(messageType.featuresReply, each, each.toString(16).padStart(48, '0')));
  };
  const connection = peer.connect();
  await connection.untilUp(peer.signal);
  const answers = await Promise.all([0, 1, 2].map(() => connection.request(features, peer.signal)));
  expect(answers.map((answer) => readHeader(answer).xid)).toEqual(asked);
});

it('collects an answer of many parts', async () => {
  peer.answer = (heard, socket) => {
    const { type, xid } = readHeader(heard);
    if (type !== messageType.multipartRequest) return;
    for (const [index, flags] of ['0001', '0001', '0000'].entries())
      socket.write(reply(messageType.multipartReply, xid, `0003${flags}00000000${'0'.repeat(47)}${index}`));
  };
  const connection = peer.connect();
  await connection.untilUp(peer.signal);
  const bodies: string[] = [];
  await connection.multipart(
    bytesOf((w) => w.u8(6).u8(18).u16(16).u32(0).u16(3).zeros(6)),
    (body) => bodies.push(Buffer.from(body).toString('hex').slice(-1)),
    peer.signal,
  );
  expect(bodies).toEqual(['0', '1', '2']);
});

it('is refused with the name of the error and what failed', async () => {
  peer.answer = (heard, socket) => {
    const { type, xid } = readHeader(heard);
    if (type === messageType.featuresRequest) socket.write(reply(messageType.error, xid, `00010005${Buffer.from(heard).toString('hex')}`));
  };
  const connection = peer.connect();
  await connection.untilUp(peer.signal);
  await expect(connection.request(features, peer.signal)).rejects.toMatchObject({
    code: 'REFUSED',
    context: { error: 'OFPBRC_EPERM', failed: 'featuresRequest' },
  });
});

it('ends with its stream, and a late answer has no effect', async () => {
  const unsolicited: number[] = [];
  const connection = peer.connect({ unsolicited: (each) => unsolicited.push(readHeader(each).type) });
  await connection.untilUp(peer.signal);
  const asked = connection.request(features, peer.signal);
  const { xid } = readHeader(await peer.hears(messageType.featuresRequest));
  peer.socket?.destroy();
  await expect(asked).rejects.toMatchObject({ code: 'UNAVAILABLE' });
  await connection.untilUp(peer.signal);
  peer.socket?.write(reply(messageType.featuresReply, xid, '0'.repeat(48)));
  peer.answer = (heard, socket) => {
    if (readHeader(heard).type === messageType.barrierRequest) socket.write(reply(messageType.barrierReply, readHeader(heard).xid));
  };
  peer.socket?.write(reply(messageType.portStatus, 0));
  await connection.barrier(peer.signal);
  expect(unsolicited).toEqual([messageType.portStatus]);
});

it('ends when its caller gives up, and reports that nothing was sent if it gave up before', async () => {
  const connection = peer.connect();
  await connection.untilUp(peer.signal);
  await expect(connection.request(features, AbortSignal.abort())).rejects.toMatchObject({ code: 'CANCELLED', context: { sent: false } });
  const giveUp = new AbortController();
  const asked = connection.request(features, giveUp.signal);
  await peer.hears(messageType.featuresRequest);
  giveUp.abort();
  await expect(asked).rejects.toMatchObject({ code: 'CANCELLED' });
});

it('fails alone if its multipart answer is one to another question, or its reader throws', async () => {
  let part = '0003000000000000';
  peer.answer = (heard, socket) => {
    const { type, xid } = readHeader(heard);
    if (type === messageType.multipartRequest) socket.write(reply(messageType.multipartReply, xid, part));
    else if (type === messageType.barrierRequest) socket.write(reply(messageType.barrierReply, xid));
  };
  const connection = peer.connect();
  await connection.untilUp(peer.signal);
  const ports = bytesOf((w) => w.u8(6).u8(18).u16(16).u32(0).u16(13).zeros(6));
  await expect(connection.multipart(ports, () => {}, peer.signal)).rejects.toMatchObject({ code: 'PROTOCOL' });
  part = '000d000000000000';
  const visit = () => {
    throw new Error('no port');
  };
  await expect(connection.multipart(ports, visit, peer.signal)).rejects.toThrow('no port');
  await connection.barrier(peer.signal);
  expect(connection.counters.connects).toBe(1);
});
