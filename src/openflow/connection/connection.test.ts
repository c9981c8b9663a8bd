import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { reply, ScriptedSwitch } from '../../../test/support/scripted-switch.ts';
import { bytesOf } from '../../base/bytes/bytes.ts';
import type { SeineError } from '../../base/errors/seine-error.ts';
import { writeEmpty } from '../control.ts';
import { writeFlowMod } from '../flows/flow-mod.ts';
import { encodeMatch } from '../match/match.ts';
import { messageType, readHeader } from '../protocol.ts';

let peer: ScriptedSwitch;

beforeEach(async () => {
  peer = await ScriptedSwitch.listen();
});
afterEach(() => peer.close());

const flow = bytesOf((w) =>
  writeFlowMod(w, { command: 'add', table: 0, priority: 1, match: encodeMatch({}), instructions: new Uint8Array(0) }),
);

describe('a session', () => {
  it('offers OpenFlow 1.5 and accepts a peer without a bitmap with that version or a higher one', async () => {
    await peer.connect().untilUp(peer.signal);
    expect(Buffer.from(await peer.hears(messageType.hello)).toString('hex')).toBe('06000010000000000001000800000040');
  });

  it('rejects a peer whose bitmap lacks 1.5, and reports it', async () => {
    peer.hello = '06000010000000010001000800000012';
    const failures: SeineError[] = [];
    peer.connect({ failed: (cause) => failures.push(cause) });
    expect(Buffer.from(await peer.hears(messageType.error)).toString('hex')).toBe('0601000c0000000000000000');
    while (failures.length === 0) await new Promise((resolve) => setImmediate(resolve));
    expect(failures[0]).toMatchObject({ code: 'UNAVAILABLE', context: { offered: [1, 4] } });
  });

  it('answers an echo with its own data', async () => {
    await peer.connect().untilUp(peer.signal);
    peer.socket?.write(reply(messageType.echoRequest, 99, 'c0ffee'));
    expect(Buffer.from(await peer.hears(messageType.echoReply)).toString('hex')).toBe('0603000b00000063c0ffee');
  });

  it('probes a silent peer, and drops one that stays silent', async () => {
    const downs: SeineError[] = [];
    const policy = { minBackoffMs: 5, maxBackoffMs: 5, jitter: 0, connectTimeoutMs: 1000, probeIntervalMs: 20, probeTimeoutMs: 20 };
    await peer.connect({ policy, down: (cause) => downs.push(cause) }).untilUp(peer.signal);
    await peer.hears(messageType.echoRequest);
    while (downs.length === 0) await new Promise((resolve) => setImmediate(resolve));
    expect(downs[0]).toMatchObject({ code: 'UNAVAILABLE' });
  });

  it('sends its greeting on every stream', async () => {
    const greeting = [bytesOf((w) => writeEmpty(w, 'getConfigRequest'))];
    const connection = peer.connect({ greeting });
    await connection.untilUp(peer.signal);
    await peer.hears(messageType.getConfigRequest);
    peer.received.length = 0;
    peer.socket?.destroy();
    await peer.hears(messageType.getConfigRequest);
    expect(connection.counters.connects).toBe(2);
  });
});

describe('a bundle', () => {
  /** Accepts everything, and closes the connection at one kind of message. */
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
    const connection = peer.connect();
    await connection.untilUp(peer.signal);
    await expect(connection.bundle([flow], peer.signal)).rejects.toMatchObject({ code: 'UNAVAILABLE', context: { sent: false } });
  });

  it('that is lost after its commit has an unknown outcome', async () => {
    dieAt(messageType.bundleControl, 2);
    const connection = peer.connect();
    await connection.untilUp(peer.signal);
    await expect(connection.bundle([flow], peer.signal)).rejects.toMatchObject({ code: 'UNAVAILABLE', context: { sent: true } });
  });

  it('is not committed if a message was refused when it was added', async () => {
    peer.answer = (heard, socket) => {
      const { type, xid } = readHeader(heard);
      if (type === messageType.bundleAdd) socket.write(reply(messageType.error, xid, '00020004'));
      if (type === messageType.barrierRequest) socket.write(reply(messageType.barrierReply, xid));
    };
    const connection = peer.connect();
    await connection.untilUp(peer.signal);
    await expect(connection.bundle([flow, flow], peer.signal)).rejects.toMatchObject({
      code: 'REFUSED',
      context: { index: 0, error: 'OFPBAC_BAD_OUT_PORT' },
    });
    const controls = () => peer.received.filter((each) => readHeader(each).type === messageType.bundleControl).map((each) => each[13]);
    while (controls().length < 2) await new Promise((resolve) => setImmediate(resolve));
    expect(controls()).toEqual([0, 6]);
  });

  describe('without waiting', () => {
    const committed = '0000000100050003'; // bundle 1, commit reply, atomic and ordered
    const controlsHeard = () => peer.received.filter((each) => readHeader(each).type === messageType.bundleControl).map((each) => each[13]);

    it('requests nothing before its commit', async () => {
      peer.answer = (heard, socket) => {
        const { type, xid } = readHeader(heard);
        if (type === messageType.bundleControl && heard[13] === 4) socket.write(reply(messageType.bundleControl, xid, committed));
      };
      const connection = peer.connect();
      await connection.untilUp(peer.signal);
      await connection.bundleAtOnce([flow, flow], peer.signal);
      expect(controlsHeard()).toEqual([0, 4]);
      expect(peer.received.filter((each) => readHeader(each).type === messageType.barrierRequest)).toEqual([]);
      expect(connection.counters).toMatchObject({ bundles: 1, flowMods: 2, bundlesRefused: 0 });
    });

    it('that is lost has an unknown outcome', async () => {
      dieAt(messageType.bundleAdd, 1);
      const connection = peer.connect();
      await connection.untilUp(peer.signal);
      await expect(connection.bundleAtOnce([flow], peer.signal)).rejects.toMatchObject({ code: 'UNAVAILABLE', context: { sent: true } });
    });

    it('requests a barrier first if the window has no room for it', async () => {
      const connection = peer.connect({ windowBytes: 1_000 });
      await connection.untilUp(peer.signal);
      await connection.send([flow], peer.signal);
      const asked = connection.bundleAtOnce(
        Array.from({ length: 40 }, () => flow),
        peer.signal,
      );
      await peer.hears(messageType.barrierRequest);
      peer.socket?.destroy();
      await expect(asked).rejects.toMatchObject({ code: 'UNAVAILABLE', context: { sent: false } });
    });
  });

  it('without messages requests nothing', async () => {
    const connection = peer.connect();
    await connection.untilUp(peer.signal);
    await connection.bundle([], peer.signal);
    expect(connection.counters.bundles).toBe(0);
  });

  it('waits for a peer that does not read, with a limit on unsent bytes', async () => {
    const connection = peer.connect();
    await connection.untilUp(peer.signal);
    peer.socket?.pause();
    const giveUp = new AbortController();
    const big = bytesOf((w) => w.u8(6).u8(14).u16(0xffe0).u32(0).zeros(0xffd8));
    const sent = connection.bundle(
      Array.from({ length: 800 }, () => big),
      giveUp.signal,
    );
    await new Promise((resolve) => setTimeout(resolve, 50));
    giveUp.abort();
    await expect(sent).rejects.toMatchObject({ code: 'CANCELLED', context: { sent: false } });
  });
});
