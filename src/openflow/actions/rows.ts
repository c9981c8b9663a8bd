import type { ByteWriter } from '../../base/bytes/bytes.ts';
import { fieldWithHeader, type Subfield } from '../match/fields.ts';
import {
  packSubfield,
  placeInField,
  readFieldId,
  readOxm,
  requireField,
  shortHeader,
  unpackSubfield,
  writeFieldId,
  writeOxm,
  writePlaced,
} from '../match/oxm.ts';
import { OPENFLOW_13, OPENFLOW_15 } from '../protocol.ts';
import { type ActionRows, port16, port32 } from './codec.ts';
import { headerRows } from './header.ts';
import { spreadRows } from './spread.ts';

const IN_PORT = 0xffff_fff8;
const SAME_TABLE = 0xff;

/** The actions of OpenFlow 1.5 itself. */
export const standardRows: ActionRows<
  'output' | 'group' | 'meter' | 'setField' | 'load' | 'move' | 'decTtl' | 'setTtl' | 'pushVlan' | 'popVlan' | 'setQueue'
> = {
  output: {
    wire: [{ type: 0 }],
    source: 'OpenFlow 1.5.1 ofp_action_output',
    encode: (w, a) => w.u32(a.port).u16(a.maxLength ?? 0),
    decode: (r) => {
      const port = r.u32();
      const maxLength = r.u16();
      return maxLength === 0 ? { kind: 'output', port } : { kind: 'output', port, maxLength };
    },
  },
  group: {
    wire: [{ type: 22 }],
    source: 'OpenFlow 1.5.1 ofp_action_group',
    encode: (w, a) => w.u32(a.group),
    decode: (r) => ({ kind: 'group', group: r.u32() }),
  },
  meter: {
    wire: [{ type: 29 }],
    source: 'OpenFlow 1.5.1 ofp_action_meter',
    encode: (w, a) => w.u32(a.meter),
    decode: (r) => ({ kind: 'meter', meter: r.u32() }),
  },
  setField: {
    wire: [{ type: 25 }, { nicira: 33 }],
    source: 'OpenFlow 1.5.1 ofp_action_set_field: one OXM TLV, which may have a mask; with a mask in 1.3 see action-set-field.ts',
    encode: (w, a, { version }) => {
      const field = requireField(a.field);
      writeOxm(w, version === OPENFLOW_13 ? field.in13 : field, a.value, a.mask);
    },
    decode: (r) => {
      const entry = readOxm(r);
      if (entry instanceof Uint8Array) return undefined;
      const { field, value, mask } = entry;
      const action = { kind: 'setField', field: field.name, value, ...(mask === undefined ? {} : { mask }) };
      return action as ReturnType<typeof standardRows.setField.decode>; // the field's row determined the type of the value
    },
  },
  load: {
    wire: [{ type: 25 }],
    wireIn13: { nicira: 7 },
    source: 'ovs-actions(7) "load"; in OpenFlow 1.3 NXAST_REG_LOAD (u16 offset and size, u32 field header, u64 value), else set_field',
    encode: (w, a, { version }) => {
      if (version !== OPENFLOW_13) return writePlaced(w, a.to, a.value);
      placeInField(a.to, a.value); // throws if the value does not fit
      w.u16(packSubfield(a.to)).u32(shortHeader(a.to.field)).u64(BigInt(a.value));
    },
    decode: (r, _nested, form) => {
      const packed = form === 1 ? r.u16() : 0;
      const to = form === 1 ? unpackSubfield(r.u32(), packed) : undefined;
      if (to === undefined) return undefined;
      const value = r.u64();
      return { kind: 'load', to, value: to.bits > 48 ? value : Number(value) };
    },
  },
  move: {
    wire: [{ type: 28 }],
    wireIn13: { nicira: 6 },
    source: 'u16 bits, u16 source offset, u16 destination offset, two headers: NXAST_REG_MOVE; u16 zero before them: ofp_action_copy_field',
    encode: (w, a, { version }) => {
      w.u16(a.from.bits).u16(a.from.offset).u16(a.to.offset);
      const from = requireField(a.from.field);
      const to = requireField(a.to.field);
      if (version === OPENFLOW_15) w.u16(0);
      writeFieldId(w, version === OPENFLOW_13 ? from.nxmHeader : from.exactHeader, from);
      writeFieldId(w, version === OPENFLOW_13 ? to.nxmHeader : to.exactHeader, to);
    },
    decode: (r, _nested, form) => {
      const bits = r.u16();
      const [fromOffset, toOffset] = [r.u16(), r.u16()];
      const [from, to] = [readFieldId(r.skip(form === 0 ? 2 : 0)), readFieldId(r)];
      if (from === undefined || to === undefined) return undefined;
      return { kind: 'move', from: { field: from.name, offset: fromOffset, bits }, to: { field: to.name, offset: toOffset, bits } };
    },
  },
  decTtl: {
    wire: [{ type: 24 }],
    source: 'OpenFlow 1.5.1 ofp_action_generic',
    encode: () => {},
    decode: () => ({ kind: 'decTtl' }),
  },
  setTtl: {
    wire: [{ type: 23 }],
    source: 'OpenFlow 1.5.1 ofp_action_nw_ttl',
    encode: (w, a) => w.u8(a.ttl),
    decode: (r) => ({ kind: 'setTtl', ttl: r.u8() }),
  },
  pushVlan: {
    wire: [{ type: 17 }],
    source: 'OpenFlow 1.5.1 ofp_action_push',
    encode: (w, a) => w.u16(a.etherType),
    decode: (r) => ({ kind: 'pushVlan', etherType: r.u16() }),
  },
  popVlan: {
    wire: [{ type: 18 }],
    source: 'OpenFlow 1.5.1 ofp_action_generic',
    encode: () => {},
    decode: () => ({ kind: 'popVlan' }),
  },
  setQueue: {
    wire: [{ type: 21 }],
    source: 'OpenFlow 1.5.1 ofp_action_set_queue',
    encode: (w, a) => w.u32(a.queue),
    decode: (r) => ({ kind: 'setQueue', queue: r.u32() }),
  },
};

/** Nicira's actions that consist of a few plain numbers. */
const smallNiciraRows: ActionRows<
  | 'outputRegister'
  | 'outputTruncated'
  | 'resubmit'
  | 'ctClear'
  | 'conjunction'
  | 'decTtlControllers'
  | 'note'
  | 'clone'
  | 'sample'
  | 'checkPacketLarger'
  | 'push'
  | 'pop'
  | 'popQueue'
  | 'finTimeout'
  | 'exit'
> = {
  outputRegister: {
    wire: [{ nicira: 15 }],
    source: 'NXAST_OUTPUT_REG: u16 offset and size, u32 field header, u16 max_len',
    encode: (w, a) => w.u16(packSubfield(a.from)).u32(shortHeader(a.from.field)).u16(a.maxLength),
    decode: (r) => {
      const packed = r.u16();
      const from = unpackSubfield(r.u32(), packed);
      return from && { kind: 'outputRegister', from, maxLength: r.u16() };
    },
  },
  outputTruncated: {
    wire: [{ nicira: 39 }],
    source: 'NXAST_OUTPUT_TRUNC: u16 port, u32 max_len',
    encode: (w, a) => w.u16(port16(a.port)).u32(a.maxLength),
    decode: (r) => ({ kind: 'outputTruncated', port: port32(r.u16()), maxLength: r.u32() }),
  },
  resubmit: {
    wire: [{ nicira: 14 }, { nicira: 44 }],
    choose: (a) => (a.withTracked ? 1 : 0),
    source: 'NXAST_RESUBMIT_TABLE, NXAST_RESUBMIT_TABLE_CT: u16 in-port, u8 table',
    encode: (w, a) => w.u16(port16(a.port ?? IN_PORT)).u8(a.table ?? SAME_TABLE),
    decode: (r, _nested, form) => {
      const port = port32(r.u16());
      const table = r.u8();
      return {
        kind: 'resubmit',
        ...(port === IN_PORT ? {} : { port }),
        ...(table === SAME_TABLE ? {} : { table }),
        ...(form === 1 ? { withTracked: true } : {}),
      };
    },
  },
  ctClear: { wire: [{ nicira: 43 }], source: 'NXAST_CT_CLEAR', encode: () => {}, decode: () => ({ kind: 'ctClear' }) },
  conjunction: {
    wire: [{ nicira: 34 }],
    source: 'NXAST_CONJUNCTION: u8 clause, u8 clauses, u32 id; ovs-actions(7) "conjunction"',
    // The wire counts clauses from 0; ovs-ofctl and this model count from 1.
    encode: (w, a) =>
      w
        .u8(a.clause - 1)
        .u8(a.of)
        .u32(a.id),
    decode: (r) => ({ kind: 'conjunction', clause: r.u8() + 1, of: r.u8(), id: r.u32() }),
  },
  decTtlControllers: {
    wire: [{ nicira: 21 }],
    source: 'NXAST_DEC_TTL_CNT_IDS: u16 count, 4 bytes zero, u16 controllers',
    encode: (w, a) => {
      w.u16(a.controllers.length).zeros(4);
      for (const controller of a.controllers) w.u16(controller);
    },
    decode: (r) => {
      const count = r.u16();
      r.skip(4);
      return { kind: 'decTtlControllers', controllers: Array.from({ length: count }, () => r.u16()) };
    },
  },
  note: {
    wire: [{ nicira: 8 }],
    source: 'NXAST_NOTE: bytes',
    encode: (w, a) => w.raw(a.bytes),
    decode: (r) => ({ kind: 'note', bytes: r.raw(r.remaining).slice() }),
  },
  clone: {
    wire: [{ nicira: 42 }],
    source: 'NXAST_CLONE: 6 bytes zero, actions',
    encode: (w, a, nested) => nested.encode(w.zeros(6), a.actions),
    decode: (r, nested) => ({ kind: 'clone', actions: nested.decode(r.skip(6)) }),
  },
  sample: {
    wire: [{ nicira: 29 }, { nicira: 41 }],
    choose: (a) => (a.samplingPort === undefined && a.direction === undefined ? 0 : 1),
    source: 'NXAST_SAMPLE, NXAST_SAMPLE3: u16 probability, u32 set, u32 domain, u32 point[, u16 port, u8 direction]',
    encode: (w, a) => {
      w.u16(a.probability).u32(a.collectorSet).u32(a.domain).u32(a.point);
      if (a.samplingPort === undefined && a.direction === undefined) return;
      w.u16(port16(a.samplingPort ?? NO_PORT)).u8(a.direction === 'ingress' ? 1 : a.direction === 'egress' ? 2 : 0);
    },
    decode: (r, _nested, form) => {
      const base = { kind: 'sample', probability: r.u16(), collectorSet: r.u32(), domain: r.u32(), point: r.u32() } as const;
      if (form === 0) return base;
      const samplingPort = port32(r.u16());
      const direction = r.u8();
      return {
        ...base,
        ...(samplingPort === NO_PORT ? {} : { samplingPort }),
        ...(direction === 1 ? { direction: 'ingress' as const } : direction === 2 ? { direction: 'egress' as const } : {}),
      };
    },
  },
  checkPacketLarger: {
    wire: [{ nicira: 49 }],
    source: 'NXAST_CHECK_PKT_LARGER: u16 bytes, u16 bit, u32 field header',
    encode: (w, a) => w.u16(a.bytes).u16(a.to.offset).u32(shortHeader(a.to.field)),
    decode: (r) => {
      const bytes = r.u16();
      const offset = r.u16();
      const field = fieldWithHeader(r.u32());
      return field && { kind: 'checkPacketLarger', bytes, to: { field: field.name, offset, bits: 1 } };
    },
  },
  push: {
    wire: [{ nicira: 27 }],
    source: 'NXAST_STACK_PUSH: u16 offset, u32 field header, u16 bits',
    encode: (w, a) => writeStack(w, a.from),
    decode: (r) => {
      const offset = r.u16();
      const field = readFieldId(r);
      return field && { kind: 'push', from: { field: field.name, offset, bits: r.u16() } };
    },
  },
  pop: {
    wire: [{ nicira: 28 }],
    source: 'NXAST_STACK_POP: as NXAST_STACK_PUSH',
    encode: (w, a) => writeStack(w, a.to),
    decode: (r) => {
      const offset = r.u16();
      const field = readFieldId(r);
      return field && { kind: 'pop', to: { field: field.name, offset, bits: r.u16() } };
    },
  },
  popQueue: { wire: [{ nicira: 5 }], source: 'NXAST_POP_QUEUE', encode: () => {}, decode: () => ({ kind: 'popQueue' }) },
  finTimeout: {
    wire: [{ nicira: 19 }],
    source: 'NXAST_FIN_TIMEOUT: u16 idle, u16 hard, in seconds',
    encode: (w, a) => w.u16(a.idleTimeout).u16(a.hardTimeout),
    decode: (r) => ({ kind: 'finTimeout', idleTimeout: r.u16(), hardTimeout: r.u16() }),
  },
  exit: { wire: [{ nicira: 17 }], source: 'NXAST_EXIT', encode: () => {}, decode: () => ({ kind: 'exit' }) },
};

const NO_PORT = 0xffff_ffff;

/** Nicira's actions, and those that push and pop headers; the largest have files of their own. */
export const niciraRows = { ...smallNiciraRows, ...headerRows, ...spreadRows };

function writeStack(w: ByteWriter, { field: name, offset, bits }: Subfield): void {
  const field = requireField(name);
  w.u16(offset);
  writeFieldId(w, field.nxmHeader, field);
  w.u16(bits);
}
