import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { reply, ScriptedSwitch } from '../../../test/support/scripted-switch.ts';
import { ByteWriter } from '../../base/bytes/bytes.ts';
import type { SeineError } from '../../base/errors/seine-error.ts';
import { writeEmpty } from '../control.ts';
import { writeFlow } from '../flows/flow.ts';
import { messageType, OPENFLOW_13, OPENFLOW_15, readHeader, type Version } from '../protocol.ts';
import { SendWindow } from './send-window.ts';

const bothVersions = [OPENFLOW_13, OPENFLOW_15] as const;
const policy = { minBackoffMs: 5, maxBackoffMs: 5, jitter: 0, connectTimeoutMs: 50, probeIntervalMs: 1_000, probeTimeoutMs: 1_000 };

let peer: ScriptedSwitch;

beforeEach(async () => {
  peer = await ScriptedSwitch.listen();
});
afterEach(() => peer.close());

function flowIn(version: Version): Uint8Array {
  const w = new ByteWriter();
  writeFlow(w, { command: 'add', table: 0, priority: 1, match: {}, does: {} }, version);
  return w.finish();
}

/** Message of nearly the maximum length. */
function long(): Uint8Array {
  return new ByteWriter().u8(6).u8(messageType.flowMod).u16(0xffe0).u32(0).zeros(0xffd8).finish();
}

function answerBarriers(version: Version = OPENFLOW_15): void {
  peer.answer = (heard, socket) => {
    const { type, xid } = readHeader(heard);
    if (type === messageType.barrierRequest) socket.write(reply(messageType.barrierReply, xid, '', version));
  };
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setImmediate(resolve));
}

describe('versions', () => {
  it('are offered in a bitmap, and the highest common one is used', async () => {
    peer.hello = '04000010000000010001000800000012';
    const connection = peer.connect({ versions: bothVersions });
    await connection.untilUp(peer.signal);
    expect(Buffer.from(await peer.hears(messageType.hello)).toString('hex')).toBe('06000010000000000001000800000050');
    expect(connection.version).toBe(OPENFLOW_13);
  });

  it('of a peer without a bitmap are all up to that of its hello', async () => {
    peer.hello = '0500000800000001';
    const connection = peer.connect({ versions: bothVersions });
    await connection.untilUp(peer.signal);
    expect(connection.version).toBe(OPENFLOW_13);
  });

  it('prevent a message of another version from being sent', async () => {
    const connection = peer.connect({ versions: bothVersions });
    await connection.untilUp(peer.signal);
    expect(connection.version).toBe(OPENFLOW_15);
    for (const send of [connection.apply, connection.bundle, connection.send])
      await expect(send.call(connection, [flowIn(OPENFLOW_13)], peer.signal)).rejects.toMatchObject({
        code: 'INVARIANT',
        context: { sent: false },
      });
  });

  it('have the bundles of OpenFlow 1.3 as an extension', async () => {
    peer.hello = '04000010000000010001000800000010';
    peer.answer = (heard, socket) => {
      const { type, xid } = readHeader(heard);
      if (type === messageType.barrierRequest) socket.write(reply(messageType.barrierReply, xid, '', OPENFLOW_13));
      const isCommit = type === messageType.experimenter && heard[15] === 0xfc && heard[21] === 4;
      if (isCommit) socket.write(reply(messageType.experimenter, xid, '4f4e4600000008fc0000000100050003', OPENFLOW_13));
    };
    const connection = peer.connect({ versions: [OPENFLOW_13] });
    await connection.untilUp(peer.signal);
    await connection.bundle([flowIn(OPENFLOW_13)], peer.signal);
    const sent = peer.received.map((each) => Buffer.from(each).toString('hex'));
    expect(sent.filter((each) => each.startsWith('0404')).map((each) => each.slice(16, 48))).toEqual([
      '4f4e4600000008fc0000000100000003',
      '4f4e4600000008fd0000000100000003',
      '4f4e4600000008fc0000000100040003',
    ]);
  });
});

describe('a peer', () => {
  it('that never finishes its hello is dropped, though it sends byte after byte', async () => {
    peer.hello = '0600ffff00000001';
    const failures: SeineError[] = [];
    peer.connect({ policy, failed: (cause) => failures.push(cause) });
    const drip = setInterval(() => peer.socket?.write(Buffer.of(0)), 5);
    await until(() => failures.length > 0);
    clearInterval(drip);
    expect(failures[0]).toMatchObject({ code: 'UNAVAILABLE', message: expect.stringContaining('no OpenFlow hello within 50 ms') });
  });

  it('that answers with another message fails the request alone', async () => {
    peer.answer = (heard, socket) => {
      const { type, xid } = readHeader(heard);
      if (type === messageType.featuresRequest) socket.write(reply(messageType.getConfigReply, xid, '00000000'));
      if (type === messageType.barrierRequest) socket.write(reply(messageType.barrierReply, xid));
    };
    const connection = peer.connect();
    await connection.untilUp(peer.signal);
    const w = new ByteWriter();
    writeEmpty(w, 'featuresRequest');
    await expect(connection.request(w.finish(), peer.signal)).rejects.toMatchObject({ code: 'PROTOCOL' });
    await connection.barrier(peer.signal);
  });
});

describe('the send window', () => {
  it('is never exceeded, and continues when a barrier is answered', async () => {
    const windowBytes = 256 * 1024;
    const connection = peer.connect({ windowBytes });
    await connection.untilUp(peer.signal);
    const sent = connection.apply(
      Array.from({ length: 40 }, () => long()),
      peer.signal,
    );
    const heardBytes = () => peer.received.reduce((sum, each) => sum + each.length, 0);
    await until(() => heardBytes() > windowBytes / 2 && connection.unacknowledgedBytes > windowBytes / 2);
    for (let turn = 0; turn < 200; turn++) await new Promise((resolve) => setImmediate(resolve));
    expect(heardBytes()).toBeLessThanOrEqual(windowBytes + 1024); // plus the hello and the barriers
    expect(connection.unacknowledgedBytes).toBeLessThanOrEqual(windowBytes + 1024);
    const held = peer.received.map(readHeader).filter(({ type }) => type === messageType.barrierRequest);
    answerBarriers();
    for (const { xid } of held) peer.socket?.write(reply(messageType.barrierReply, xid));
    await sent;
    expect(peer.received.filter((each) => readHeader(each).type === messageType.flowMod).length).toBe(40);
    expect(connection.unacknowledgedBytes).toBe(0);
  });

  it('lets a message larger than itself pass alone', () => {
    const window = new SendWindow(100);
    expect(window.hasRoom(1_000)).toBe(true);
    window.wrote(1_000);
    expect([window.hasRoom(1), window.markDue]).toEqual([false, true]);
    window.mark(7);
    expect([window.acknowledge(8), window.acknowledge(7), window.unacknowledgedBytes]).toEqual([false, true, 0]);
  });

  it('applies the answer to a barrier to the earlier ones', () => {
    const window = new SendWindow(100);
    for (const xid of [1, 2, 3]) {
      window.wrote(10);
      window.mark(xid);
    }
    window.wrote(5);
    expect([window.acknowledge(2), window.unacknowledgedBytes, window.acknowledge(1)]).toEqual([true, 15, false]);
  });
});

describe('single changes', () => {
  const flows = [flowIn(OPENFLOW_15), flowIn(OPENFLOW_15), flowIn(OPENFLOW_15)];

  it('are made when their barrier is answered', async () => {
    answerBarriers();
    const connection = peer.connect();
    await connection.untilUp(peer.signal);
    await connection.apply(flows, peer.signal);
    await connection.apply([], peer.signal);
    expect(peer.received.map((each) => readHeader(each).type)).toEqual([0, 14, 14, 14, 20, 20]);
  });

  it('report refused ones', async () => {
    let seen = 0;
    peer.answer = (heard, socket) => {
      const { type, xid } = readHeader(heard);
      if (type === messageType.flowMod && ++seen > 1) socket.write(reply(messageType.error, xid, '00050002'));
      if (type === messageType.barrierRequest) socket.write(reply(messageType.barrierReply, xid));
    };
    const connection = peer.connect();
    await connection.untilUp(peer.signal);
    await expect(connection.apply(flows, peer.signal)).rejects.toMatchObject({
      code: 'REFUSED',
      context: { index: 1, refusals: 2, error: 'OFPFMFC_BAD_TABLE_ID', refused: [{ index: 1 }, { index: 2 }] },
    });
  });

  it('have an unknown outcome when the stream is lost after them', async () => {
    peer.answer = (heard, socket) => {
      if (readHeader(heard).type === messageType.barrierRequest) socket.destroy();
    };
    const connection = peer.connect();
    await connection.untilUp(peer.signal);
    await expect(connection.apply(flows, peer.signal)).rejects.toMatchObject({ code: 'UNAVAILABLE', context: { sent: true } });
    await expect(connection.apply(flows, AbortSignal.abort())).rejects.toMatchObject({ context: { sent: false } });
  });
});
