import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { encodeFrame } from '../../../test/support/frame.ts';
import { bytesOf } from '../../base/bytes/bytes.ts';
import { silentLog } from '../../base/log/log.ts';
import { parseIp } from '../../base/net/ip.ts';
import { parseMac } from '../../base/net/mac.ts';
import { readTcpFrame } from '../../dataplane/packet-io/tcp-frame.ts';
import { ctMark, reg } from '../../dataplane/pipeline/fields.ts';
import { tables } from '../../dataplane/pipeline/tables.ts';
import type { Packet } from '../../dataplane/switch-model/packet.ts';
import { type ConntrackTuple, writeConntrackFlush } from '../../openflow/conntrack-flush.ts';
import type { Match } from '../../openflow/match/match.ts';
import { decodePacketOut, type PacketIn } from '../../openflow/packet.ts';
import { ofPort } from '../../openflow/protocol.ts';
import { HalfOpenConnections } from './half-open.ts';

const link = { ethSrc: parseMac('0e:aa:00:00:00:05'), ethDst: parseMac('0e:00:00:00:01:01') };
const clientPort = 40_123;
const state = { invalid: 0x30, dnat: 0x80, snat: 0x40 };
const fromPod = 3;

const packetIn = (data: Uint8Array, fields: Match): PacketIn => ({ table: 16, reason: 'action', fields, fullLength: data.length, data });

let sent: Uint8Array[];
let take: (packet: PacketIn) => void;
let halfOpen: HalfOpenConnections;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'] });
  sent = [];
  halfOpen = new HalfOpenConnections(
    {
      on: (_, taker) => void (take = taker),
      send: async (messages) => void sent.push(...messages),
    },
    silentLog,
  );
});

afterEach(() => void vi.useRealTimers());

describe.each([
  { family: 'ipv4', client: '10.10.0.5', endpoint: '10.10.4.9', service: '10.96.0.10', zone: 65520, snat: 65521, field: 'ip_dst' },
  { family: 'ipv6', client: 'fd00:10::5', endpoint: 'fd00:10:0:1::9', service: 'fd00:96::10', zone: 65510, snat: 65511, field: 'ipv6_dst' },
] as const)('a client of $family', ({ family, zone, snat, field, ...texts }) => {
  const [client, endpoint, service] = [parseIp(texts.client), parseIp(texts.endpoint), parseIp(texts.service)];
  const frame = (tcpFlags: NonNullable<Packet['tcpFlags']>, ends: Partial<Packet> = {}): Uint8Array => {
    const ports = { portSrc: clientPort, portDst: 8080 };
    return encodeFrame({ ...link, payload: family, ipSrc: client, ipDst: endpoint, ttl: 64, protocol: 'tcp', ...ports, tcpFlags, ...ends });
  };
  const flush = (original: ConntrackTuple, of: number = zone): Uint8Array =>
    bytesOf((w) => writeConntrackFlush(w, { zone: of, ipProtocol: 6, original }));
  const direct = { src: client, dst: endpoint, srcPort: clientPort, dstPort: 8080 };
  const fields = { in_port: 32_784, reg0: fromPod, reg5: 7, ct_state: state.invalid, ct_mark: ctMark.source('pod').value };

  it('that reconnects has its old connection deleted, and its packet sent again', () => {
    take(packetIn(frame('syn'), fields));
    expect(sent).toHaveLength(2);
    expect(sent[0]).toEqual(flush(direct));
    const out = decodePacketOut(sent[1] ?? new Uint8Array(0));
    expect(out.fields).toEqual({ in_port: 32_784 });
    expect(out.data).toEqual(frame('syn'));
    expect(out.actions).toEqual([
      { kind: 'setField', field: 'reg0', value: fromPod },
      { kind: 'setField', field: 'reg5', value: 7 },
      { kind: 'setField', field: 'reg0', value: reg.halfOpenProbe('repeated').value, mask: reg.halfOpenProbe('repeated').mask },
      expect.objectContaining({ kind: 'resubmit', table: tables.track.id }),
    ]);
    expect(halfOpen.counters).toEqual({ forgotten: 1, suppressed: 0 });
  });

  it('that resets has the attempt deleted, and nothing sent: OVS has forwarded that', () => {
    take(packetIn(frame('rst'), fields));
    expect(sent).toEqual([flush(direct)]);
  });

  it('that reconnected and resets has its packet sent again, once: its own next one may have passed before', () => {
    take(packetIn(frame('syn'), fields));
    take(packetIn(frame('rst'), fields));
    expect(sent).toEqual([flush(direct), sent[1], flush(direct), sent[1]]);
    sent.length = 0;
    take(packetIn(frame('rst'), fields));
    expect(sent).toEqual([flush(direct)]);
  });

  it('that resets long after only has the attempt deleted', () => {
    take(packetIn(frame('syn'), fields));
    sent.length = 0;
    vi.advanceTimersByTime(3_001);
    take(packetIn(frame('rst'), fields));
    expect(sent).toEqual([flush(direct)]);
  });

  it('of a Service is probed by an answer that no server sent', () => {
    const marked = { ...fields, ct_state: state.invalid | state.dnat, ct_mark: ctMark.service('yes').value };
    take(packetIn(frame('syn'), marked));
    expect(sent).toHaveLength(1);
    const probe = decodePacketOut(sent[0] ?? new Uint8Array(0));
    expect(probe.fields).toEqual({ in_port: ofPort.controller });
    expect(readTcpFrame(probe.data)).toMatchObject({
      tuple: { src: endpoint, dst: client, srcPort: 8080, dstPort: clientPort },
      isReset: true,
    });
    sent.length = 0;
    take(
      packetIn(frame('rst', { ipSrc: service, ipDst: client, portSrc: 80, portDst: 40_000 }), {
        reg0: reg.halfOpenProbe('sent').value,
        reg6: 1,
      }),
    );
    expect(sent[0]).toEqual(flush({ src: client, dst: service, srcPort: 40_000, dstPort: 80 }));
    expect(decodePacketOut(sent[1] ?? new Uint8Array(0)).actions.slice(0, 3)).toEqual([
      { kind: 'setField', field, value: family === 'ipv4' ? Number(service.value) : service.value },
      { kind: 'setField', field: 'tcp_src', value: 40_000 },
      { kind: 'setField', field: 'tcp_dst', value: 80 },
    ]);
  });

  it('that is its own endpoint has both entries deleted', () => {
    const marked = { ...fields, ct_state: state.invalid | state.dnat, ct_mark: ctMark.service('yes').value + ctMark.snat('yes').value };
    take(packetIn(frame('syn'), marked));
    sent.length = 0;
    const answer = frame('rst', { ipSrc: service, ipDst: client, portSrc: 80, portDst: clientPort });
    take(packetIn(answer, { reg0: reg.halfOpenProbe('sent').value, reg6: 1 }));
    expect(sent.slice(0, 2)).toEqual([flush({ src: client, dst: service, srcPort: clientPort, dstPort: 80 }), flush(direct, snat)]);
    expect(sent).toHaveLength(3);
  });

  it("is found too if its server connects, with a Service's address", () => {
    const back = frame('syn', { ipSrc: service, ipDst: client, portSrc: 80, portDst: clientPort });
    take(packetIn(back, { ...fields, ct_state: state.invalid | state.snat }));
    expect(sent).toEqual([flush({ src: client, dst: service, srcPort: clientPort, dstPort: 80 })]);
  });
});

it('answers without a probe, and other protocols, end here', () => {
  const syn = encodeFrame({
    ...link,
    payload: 'ipv4',
    ipSrc: parseIp('10.10.0.5'),
    ipDst: parseIp('10.10.0.6'),
    ttl: 64,
    protocol: 'tcp',
    portSrc: 1,
    portDst: 2,
    tcpFlags: 'syn',
  });
  take(packetIn(syn, { reg0: reg.halfOpenProbe('sent').value, reg6: 1 }));
  take(packetIn(syn.subarray(0, 30), { reg0: fromPod }));
  expect(sent).toEqual([]);
});

it('is limited to its rate', () => {
  const ends = { payload: 'ipv4', ipSrc: parseIp('10.10.0.5'), ipDst: parseIp('10.10.0.6'), ttl: 64, protocol: 'tcp' } as const;
  const syn = encodeFrame({ ...link, ...ends, portSrc: 1, portDst: 2, tcpFlags: 'syn' });
  for (let n = 0; n < 5_000; n++) take(packetIn(syn, { in_port: 32_784, reg0: fromPod, ct_state: state.invalid + state.dnat }));
  const { suppressed } = halfOpen.counters;
  expect(suppressed).toBeGreaterThan(3_000);
  expect(sent.length).toBe(5_000 - suppressed);
});
