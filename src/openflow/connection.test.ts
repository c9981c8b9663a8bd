import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { reply, ScriptedSwitch } from '../../test/support/scripted-switch.ts';
import type { SeineError } from '../errors/seine-error.ts';
import { ByteWriter } from '../wire/bytes.ts';
import { OpenFlowConnection, type OpenFlowConnectionOptions } from './connection.ts';
import { writeEmpty } from './control.ts';
import { writeFlowMod } from './flow-mod.ts';
import { encodeMatch } from './match.ts';
import { messageType, readHeader } from './protocol.ts';

let peer: ScriptedSwitch;
let stop: AbortController;

beforeEach(async () => {
  stop = new AbortController();
  peer = new ScriptedSwitch();
  await peer.listen();
});
afterEach(() => {
  stop.abort();
  peer.close();
});

function connect(options: Partial<OpenFlowConnectionOptions> = {}): OpenFlowConnection {
  const connection = new OpenFlowConnection({ endpoint: `unix:${peer.path}`, ...options });
  void connection.run(stop.signal);
  return connection;
}

function message(write: (w: ByteWriter) => void): Uint8Array {
  const w = new ByteWriter();
  write(w);
  return w.finish();
}

const flow = message((w) =>
  writeFlowMod(w, { command: 'add', table: 0, priority: 1, match: encodeMatch({}), instructions: new Uint8Array(0) }),
);
const features = message((w) => writeEmpty(w, 'featuresRequest'));

describe('a session', () => {
  it('offers OpenFlow 1.5 and takes a peer without a bitmap that goes higher or as high', async () => {
    await connect().untilUp(stop.signal);
    expect(Buffer.from(await peer.hears(messageType.hello)).toString('hex')).toBe('06000010000000000001000800000040');
  });

  it('refuses a peer whose bitmap lacks 1.5, and says so', async () => {
    peer.hello = '06000010000000010001000800000012';
    const failures: SeineError[] = [];
    connect({ failed: (cause) => failures.push(cause) });
    expect(Buffer.from(await peer.hears(messageType.error)).toString('hex')).toBe('0601000c0000000000000000');
    while (failures.length === 0) await new Promise((resolve) => setImmediate(resolve));
    expect(failures[0]).toMatchObject({ code: 'UNAVAILABLE', context: { offered: [1, 4] } });
  });

  it('answers an echo with its own data', async () => {
    await connect().untilUp(stop.signal);
    peer.socket?.write(reply(messageType.echoRequest, 99, 'c0ffee'));
    expect(Buffer.from(await peer.hears(messageType.echoReply)).toString('hex')).toBe('0603000b00000063c0ffee');
  });

  it('probes a silent peer, and drops one that stays silent', async () => {
    const downs: SeineError[] = [];
    const policy = { minBackoffMs: 5, maxBackoffMs: 5, jitter: 0, connectTimeoutMs: 1000, probeIntervalMs: 20, probeTimeoutMs: 20 };
    await connect({ policy, down: (cause) => downs.push(cause) }).untilUp(stop.signal);
    await peer.hears(messageType.echoRequest);
    while (downs.length === 0) await new Promise((resolve) => setImmediate(resolve));
    expect(downs[0]).toMatchObject({ code: 'UNAVAILABLE' });
  });

  it('sends its greeting on every stream', async () => {
    const greeting = [message((w) => writeEmpty(w, 'getConfigRequest'))];
    const connection = connect({ greeting });
    await connection.untilUp(stop.signal);
    await peer.hears(messageType.getConfigRequest);
    peer.heard.length = 0;
    peer.socket?.destroy();
    await peer.hears(messageType.getConfigRequest);
    expect(connection.counters.connects).toBe(2);
  });
});

describe('a request', () => {
  it('finds its answer among others that come out of order', async () => {
    const asked: number[] = [];
    peer.answer = (heard, socket) => {
      const { type, xid } = readHeader(heard);
      if (type !== messageType.featuresRequest) return;
      asked.push(xid);
      if (asked.length === 3)
        for (const each of asked.toReversed()) socket.write(reply(messageType.featuresReply, each, each.toString(16).padStart(48, '0')));
    };
    const connection = connect();
    await connection.untilUp(stop.signal);
    const answers = await Promise.all([0, 1, 2].map(() => connection.request(features, stop.signal)));
    expect(answers.map((answer) => readHeader(answer).xid)).toEqual(asked);
  });

  it('gathers an answer of many parts', async () => {
    peer.answer = (heard, socket) => {
      const { type, xid } = readHeader(heard);
      if (type !== messageType.multipartRequest) return;
      for (const [index, flags] of ['0001', '0001', '0000'].entries())
        socket.write(reply(messageType.multipartReply, xid, `0003${flags}00000000${'0'.repeat(47)}${index}`));
    };
    const connection = connect();
    await connection.untilUp(stop.signal);
    const bodies: string[] = [];
    await connection.multipart(
      message((w) => w.u8(6).u8(18).u16(16).u32(0).u16(3).zeros(6)),
      (body) => bodies.push(Buffer.from(body).toString('hex').slice(-1)),
      stop.signal,
    );
    expect(bodies).toEqual(['0', '1', '2']);
  });

  it('is refused with the name of the error and what failed', async () => {
    peer.answer = (heard, socket) => {
      const { type, xid } = readHeader(heard);
      if (type === messageType.featuresRequest)
        socket.write(reply(messageType.error, xid, `00010005${Buffer.from(heard).toString('hex')}`));
    };
    const connection = connect();
    await connection.untilUp(stop.signal);
    await expect(connection.request(features, stop.signal)).rejects.toMatchObject({
      code: 'REFUSED',
      context: { error: 'OFPBRC_EPERM', failed: 'featuresRequest' },
    });
  });

  it('ends with its stream, and a late answer disturbs nobody', async () => {
    const unsolicited: number[] = [];
    const connection = connect({ unsolicited: (each) => unsolicited.push(readHeader(each).type) });
    await connection.untilUp(stop.signal);
    const asked = connection.request(features, stop.signal);
    const { xid } = readHeader(await peer.hears(messageType.featuresRequest));
    peer.socket?.destroy();
    await expect(asked).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    await connection.untilUp(stop.signal);
    peer.socket?.write(reply(messageType.featuresReply, xid, '0'.repeat(48)));
    peer.answer = (heard, socket) => {
      if (readHeader(heard).type === messageType.barrierRequest) socket.write(reply(messageType.barrierReply, readHeader(heard).xid));
    };
    peer.socket?.write(reply(messageType.portStatus, 0));
    await connection.barrier(stop.signal);
    expect(unsolicited).toEqual([messageType.portStatus]);
  });

  it('ends when its caller gives up, and says that nothing was sent if it gave up before', async () => {
    const connection = connect();
    await connection.untilUp(stop.signal);
    await expect(connection.request(features, AbortSignal.abort())).rejects.toMatchObject({ code: 'CANCELLED', context: { sent: false } });
    const giveUp = new AbortController();
    const asked = connection.request(features, giveUp.signal);
    await peer.hears(messageType.featuresRequest);
    giveUp.abort();
    await expect(asked).rejects.toMatchObject({ code: 'CANCELLED' });
  });
});

describe('a bundle', () => {
  /** Takes everything, and loses the connection at one kind of message. */
  function dieAt(fatal: number, occurrence: number): void {
    let seen = 0;
    peer.answer = (heard, socket) => {
      const { type, xid } = readHeader(heard);
      if (type === fatal && ++seen === occurrence) socket.destroy();
      else if (type === messageType.barrierRequest) socket.write(reply(messageType.barrierReply, xid));
    };
  }

  it('that is lost before its commit certainly changed nothing', async () => {
    dieAt(messageType.barrierRequest, 1);
    const connection = connect();
    await connection.untilUp(stop.signal);
    await expect(connection.bundle([flow], stop.signal)).rejects.toMatchObject({ code: 'UNAVAILABLE', context: { sent: false } });
  });

  it('that is lost after its commit has an unknown outcome', async () => {
    dieAt(messageType.bundleControl, 2);
    const connection = connect();
    await connection.untilUp(stop.signal);
    await expect(connection.bundle([flow], stop.signal)).rejects.toMatchObject({ code: 'UNAVAILABLE', context: { sent: true } });
  });

  it('is not committed if a message was refused when it was added', async () => {
    peer.answer = (heard, socket) => {
      const { type, xid } = readHeader(heard);
      if (type === messageType.bundleAdd) socket.write(reply(messageType.error, xid, '00020004'));
      if (type === messageType.barrierRequest) socket.write(reply(messageType.barrierReply, xid));
    };
    const connection = connect();
    await connection.untilUp(stop.signal);
    await expect(connection.bundle([flow, flow], stop.signal)).rejects.toMatchObject({
      code: 'REFUSED',
      context: { index: 0, error: 'OFPBAC_BAD_OUT_PORT' },
    });
    const controls = () => peer.heard.filter((each) => readHeader(each).type === messageType.bundleControl).map((each) => each[13]);
    while (controls().length < 2) await new Promise((resolve) => setImmediate(resolve));
    expect(controls()).toEqual([0, 6]);
  });

  it('of nothing asks nothing', async () => {
    const connection = connect();
    await connection.untilUp(stop.signal);
    await connection.bundle([], stop.signal);
    expect(connection.counters.bundles).toBe(0);
  });

  it('waits for a peer that does not read, with a bound on what is unsent', async () => {
    const connection = connect();
    await connection.untilUp(stop.signal);
    peer.socket?.pause();
    const giveUp = new AbortController();
    const big = message((w) => w.u8(6).u8(14).u16(0xffe0).u32(0).zeros(0xffd8));
    const sent = connection.bundle(
      Array.from({ length: 800 }, () => big),
      giveUp.signal,
    );
    await new Promise((resolve) => setTimeout(resolve, 50));
    giveUp.abort();
    await expect(sent).rejects.toMatchObject({ code: 'CANCELLED', context: { sent: false } });
  });
});
