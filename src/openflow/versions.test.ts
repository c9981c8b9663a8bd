import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { ByteWriter } from '../base/bytes/bytes.ts';
import {
  writeDescRequest,
  writeEmpty,
  writeFlushZone,
  writeRoleRequest,
  writeSetAsync,
  writeSetConfig,
  writeSetControllerId,
  writeTableStatsRequest,
  writeUsePacketIn2,
} from './control.ts';
import { writeGroupDescRequest } from './groups/group.ts';
import { writeGroupStatsRequest } from './groups/group-stats.ts';
import { type BodyOf, decodeMessage, type Message, type MessageKind } from './message.ts';
import { writeMeterDescRequest } from './meter.ts';
import { decodeMultipart } from './multipart.ts';
import { decodePortStats, decodePorts, writePortDescRequest, writePortStatsRequest } from './port.ts';
import { OPENFLOW_13, OPENFLOW_15, type Version } from './protocol.ts';
import { decodeUnsolicited } from './unsolicited.ts';

const recorded = ['openflow-session', 'openflow-vectors'].flatMap((file) =>
  readFileSync(new URL(`../../test/fixtures/${file}.jsonl`, import.meta.url), 'utf8')
    .trim()
    .split('\n')
    .map((line) => Uint8Array.from(Buffer.from((JSON.parse(line) as { hex: string }).hex, 'hex'))),
);

/** Messages of a kind in the fixtures of the version, each with its bytes. */
function of<K extends MessageKind>(kind: K, version: Version): { readonly bytes: Uint8Array; readonly body: BodyOf<K> }[] {
  return recorded.flatMap((bytes) => {
    const message = decodeMessage(bytes) as Message;
    return message.kind === kind && message.version === version ? [{ bytes, body: message.body as BodyOf<K> }] : []; // the kind determines the type of the body
  });
}

describe.each<Version>([OPENFLOW_13, OPENFLOW_15])('the functions of single messages in version %d', (version) => {
  const requests: readonly (readonly [MessageKind, (w: ByteWriter) => void])[] = [
    ['barrierRequest', (w) => writeEmpty(w, 'barrierRequest', version)],
    ['setConfig', (w) => writeSetConfig(w, { fragments: 1, missSendLength: 0 }, version)],
    ['descRequest', (w) => writeDescRequest(w, version)],
    ['tableStatsRequest', (w) => writeTableStatsRequest(w, version)],
    ['portDescRequest', (w) => writePortDescRequest(w, undefined, version)],
    ['portStatsRequest', (w) => writePortStatsRequest(w, undefined, version)],
    ['groupDescRequest', (w) => writeGroupDescRequest(w, undefined, version)],
    ['groupStatsRequest', (w) => writeGroupStatsRequest(w, undefined, version)],
    ['meterDescRequest', (w) => writeMeterDescRequest(w, undefined, version)],
    ['flushZone', (w) => writeFlushZone(w, 77, version)],
    ['setControllerId', (w) => writeSetControllerId(w, 42, version)],
    ['setPacketInFormat', (w) => writeUsePacketIn2(w, version)],
  ];

  it.each(requests)('write %s as ovs-ofctl does', (kind, write) => {
    const w = new ByteWriter();
    write(w);
    const ours = Buffer.from(w.finish()).toString('hex').slice(16);
    expect(of(kind, version).map(({ bytes }) => Buffer.from(bytes).toString('hex').slice(16))).toContain(ours);
  });

  it('write roles and unsolicited messages so that they are decoded as intended', () => {
    const w = new ByteWriter();
    writeRoleRequest(w, 'secondary', 7n, version);
    const role = decodeMessage(w.finish());
    expect(role).toMatchObject({ kind: 'roleRequest', version, body: { role: 'secondary', generation: 7n } });
    writeSetAsync(w.truncate(0), { packetIn: 3, flowRemoved: 4 }, version);
    expect(decodeMessage(w.finish())).toMatchObject({ kind: 'setAsync', version, body: { packetIn: 3, flowRemoved: 4 } });
  });

  it('read ports and their counters', () => {
    for (const { bytes, body } of of('portDescReply', version)) {
      const ports = decodePorts(decodeMultipart(bytes).body, version);
      expect(ports).toMatchObject(body.ports.map(({ number, name, address, config, state }) => ({ number, name, address, config, state })));
    }
    for (const { bytes, body } of of('portStatsReply', version)) {
      const wanted = body.ports.map(({ ethernet: _, unknownProperties: __, durationNs: ___, ...counters }) => counters);
      expect(decodePortStats(decodeMultipart(bytes).body, version)).toEqual(wanted);
    }
    expect(of('portDescReply', version).length * of('portStatsReply', version).length).toBeGreaterThan(0);
  });

  it('read unsolicited messages of a switch', () => {
    for (const { bytes, body } of of('portStatus', version))
      expect(decodeUnsolicited(bytes)).toMatchObject({
        kind: 'portStatus',
        status: { reason: body.reason, port: { name: body.port.name, number: body.port.number } },
      });
    for (const { bytes, body } of of('flowRemoved', version)) {
      const { table, priority, cookie, match, statistics } = body;
      expect(decodeUnsolicited(bytes)).toMatchObject({
        kind: 'flowRemoved',
        flow: { table, priority, cookie, match, durationNs: statistics.durationNs },
      });
    }
    for (const { bytes, body } of of('packetIn2', version))
      expect(decodeUnsolicited(bytes)).toMatchObject({ kind: 'packetIn', packet: { fields: body.fields, data: body.data } });
    const updates = version === OPENFLOW_13 ? of('flowMonitorReply13', version) : of('flowMonitorReply', version);
    for (const { bytes, body } of updates) {
      const reported = decodeUnsolicited(bytes);
      expect(reported.kind === 'flowUpdates' && reported.updates.map(({ event }) => event)).toEqual(body.updates.map(({ event }) => event));
    }
    expect(updates.length).toBeGreaterThan(3);
  });
});
