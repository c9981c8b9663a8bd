import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { ByteWriter } from '../base/bytes/bytes.ts';
import { decodeBundleAdd, decodeBundleControl, writeBundleAdd, writeBundleControl } from './bundle.ts';
import { writeDescRequest, writeFlushZone, writeSetConfig, writeTableStatsRequest, writeUsePacketIn2 } from './control.ts';
import { decodeFlowMod, writeFlowMod } from './flows/flow-mod.ts';
import { writeFlowMonitorRequest } from './flows/flow-monitor.ts';
import { writeAggregateRequest, writeFlowDescRequest } from './flows/flow-stats.ts';
import { decodeInstructions, encodeInstructions } from './flows/instructions.ts';
import { decodeGroupMod, writeGroupDescRequest, writeGroupMod } from './groups/group.ts';
import { writeGroupStatsRequest } from './groups/group-stats.ts';
import { decodeMatch, encodeMatch } from './match/match.ts';
import { decodeMeterMod, writeMeterDescRequest, writeMeterMod } from './meter.ts';
import { decodePacketOut, writePacketOut } from './packet.ts';
import { writePortDescRequest, writePortStatsRequest } from './port.ts';
import { readHeader } from './protocol.ts';
import { printInstructions } from './text/action-text.ts';
import { printGroup } from './text/group-text.ts';
import { printMatch } from './text/match-text.ts';

interface Line {
  readonly kind: string;
  readonly hex: string;
  readonly text: string;
  readonly canonical: string;
}

/** OpenFlow 1.5 messages that ovs-ofctl 3.1 sent, with the text it prints for them. */
const lines = readFileSync(new URL('../../test/fixtures/openflow-corpus.jsonl', import.meta.url), 'utf8')
  .trim()
  .split('\n')
  .map((line): Line => JSON.parse(line));

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}

function written(message: Uint8Array, write: (w: ByteWriter) => void): string {
  const w = new ByteWriter();
  write(w);
  w.patchU32(4, readHeader(message).xid);
  return hex(w.finish());
}

describe('flow-mods of ovs-ofctl', () => {
  const flowMods = lines.filter((line) => line.kind === 'flow_mod');

  it('come back from decoding and encoding byte for byte', () => {
    for (const line of flowMods) {
      const message = Buffer.from(line.hex, 'hex');
      const mod = decodeFlowMod(message);
      expect(hex(encodeMatch(decodeMatch(mod.match))), line.canonical).toBe(hex(mod.match));
      expect(hex(encodeInstructions(decodeInstructions(mod.instructions))), line.canonical).toBe(hex(mod.instructions));
      expect(
        written(message, (w) => writeFlowMod(w, mod)),
        line.canonical,
      ).toBe(line.hex);
    }
  });

  it('print as the tool prints them', () => {
    for (const line of flowMods) {
      const mod = decodeFlowMod(Buffer.from(line.hex, 'hex'));
      const matched = printMatch(decodeMatch(mod.match)).join(',');
      const done = printInstructions(decodeInstructions(mod.instructions));
      const head = mod.priority !== 0x8000 && matched !== '' ? ',' : ' ';
      expect(line.canonical, line.text).toContain(`${matched === '' ? '' : head}${matched} actions=${done}`);
    }
  });

  it('hold no action or field that is unknown', () => {
    const unknown = flowMods.filter((line) => {
      const mod = decodeFlowMod(Buffer.from(line.hex, 'hex'));
      const parts = [decodeMatch(mod.match), decodeInstructions(mod.instructions)];
      return JSON.stringify(parts, (_key, value) => (typeof value === 'bigint' ? String(value) : value)).includes('unknown');
    });
    expect(unknown.map((line) => line.canonical)).toEqual([]);
  });
});

it('group-mods of ovs-ofctl come back from decoding and encoding byte for byte', () => {
  for (const line of lines.filter((each) => each.kind === 'group_mod')) {
    const message = Buffer.from(line.hex, 'hex');
    expect(
      written(message, (w) => writeGroupMod(w, decodeGroupMod(message))),
      line.canonical,
    ).toBe(line.hex);
  }
});

it('group-mods of ovs-ofctl print as the tool prints them', () => {
  const whole = lines.filter((line) => line.kind === 'group_mod' && /: *\n (ADD|MOD)/.test(line.canonical));
  for (const line of whole) expect(line.canonical).toContain(` ${printGroup(decodeGroupMod(Buffer.from(line.hex, 'hex')))}`);
  expect(whole.length).toBeGreaterThan(10);
});

describe('other messages of ovs-ofctl', () => {
  const again: Readonly<Record<string, (message: Uint8Array, w: ByteWriter) => void>> = {
    packet_out: (message, w) => writePacketOut(w, decodePacketOut(message)),
    meter_mod: (message, w) => writeMeterMod(w, decodeMeterMod(message)),
    bundle_control: (message, w) => writeBundleControl(w, decodeBundleControl(message)),
    bundle_add: (message, w) => writeBundleAdd(w, { xid: readHeader(message).xid, ...decodeBundleAdd(message) }),
  };

  for (const [kind, write] of Object.entries(again)) {
    it(`of kind ${kind} come back byte for byte`, () => {
      const found = lines.filter((line) => line.kind === kind);
      expect(found.length).toBeGreaterThan(3);
      for (const line of found) {
        const message = Buffer.from(line.hex, 'hex');
        expect(
          written(message, (w) => write(message, w)),
          line.canonical,
        ).toBe(line.hex);
      }
    });
  }

  const requests: readonly (readonly [string, (w: ByteWriter) => void])[] = [
    ['OFPST_FLOW request (OF1.5) (xid=0x2): table=21', (w) => writeFlowDescRequest(w, { table: 21 })],
    ['OFPST_AGGREGATE request (OF1.5) (xid=0x2): table=0', (w) => writeAggregateRequest(w, { table: 0 })],
    ['OFPST_TABLE request (OF1.5) (xid=0x2):', writeTableStatsRequest],
    ['OFPST_PORT request (OF1.5) (xid=0x2): port_no=ANY', (w) => writePortStatsRequest(w)],
    ['OFPST_PORT_DESC request (OF1.5) (xid=0x2): port=ANY', (w) => writePortDescRequest(w)],
    ['OFPST_DESC request (OF1.5) (xid=0x2):', writeDescRequest],
    ['OFPST_GROUP_DESC request (OF1.5) (xid=0x2): group_id=ALL', writeGroupDescRequest],
    ['OFPST_GROUP request (OF1.5) (xid=0x2): group_id=5', (w) => writeGroupStatsRequest(w, 5)],
    ['OFPST_METER_CONFIG request (OF1.5) (xid=0x2): meter=5', (w) => writeMeterDescRequest(w, 5)],
    ['NXT_CT_FLUSH_ZONE (OF1.5) (xid=0x2): zone_id=65520', (w) => writeFlushZone(w, 65520)],
    [
      'OFPT_SET_CONFIG (OF1.5) (xid=0x3): frags=normal miss_send_len=65535',
      (w) => writeSetConfig(w, { fragments: 0, missSendLength: 0xffff }),
    ],
    ['NXT_SET_PACKET_IN_FORMAT (OF1.5) (xid=0x6): format=nxt_packet_in2', writeUsePacketIn2],
    [
      'OFPST_FLOW_MONITOR request (OF1.5) (xid=0x5):\n id=0 flags=initial,add,delete,modify,actions,own',
      (w) => writeFlowMonitorRequest(w, { id: 0, flags: 0x5f }),
    ],
  ];

  for (const [text, write] of requests) {
    it(`are written alike: ${text.split('\n')[0]}`, () => {
      const line = lines.find((each) => each.canonical.trim() === text);
      expect(line && written(Buffer.from(line.hex, 'hex'), write)).toBe(line?.hex);
      expect(line).toBeDefined();
    });
  }
});
