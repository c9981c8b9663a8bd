import { fieldWithHeader } from '../match/fields.ts';
import { requireField } from '../match/oxm.ts';
import type { ActionRows } from './codec.ts';

const nothing = { encode: () => {} };

/** Actions that push or pop headers, or decrement TTLs: MPLS, PBB, NSH. */
export const headerRows: ActionRows<
  | 'pushMpls'
  | 'popMpls'
  | 'setMplsTtl'
  | 'decMplsTtl'
  | 'copyTtlOut'
  | 'copyTtlIn'
  | 'pushPbb'
  | 'popPbb'
  | 'decNshTtl'
  | 'encap'
  | 'decap'
  | 'deleteField'
> = {
  pushMpls: {
    wire: [{ type: 19 }],
    source: 'OpenFlow 1.5.1 ofp_action_push',
    encode: (w, a) => w.u16(a.etherType),
    decode: (r) => ({ kind: 'pushMpls', etherType: r.u16() }),
  },
  popMpls: {
    wire: [{ type: 20 }],
    source: 'OpenFlow 1.5.1 ofp_action_pop_mpls: the EtherType of what is below',
    encode: (w, a) => w.u16(a.etherType),
    decode: (r) => ({ kind: 'popMpls', etherType: r.u16() }),
  },
  setMplsTtl: {
    wire: [{ type: 15 }],
    source: 'OpenFlow 1.5.1 ofp_action_mpls_ttl',
    encode: (w, a) => w.u8(a.ttl),
    decode: (r) => ({ kind: 'setMplsTtl', ttl: r.u8() }),
  },
  decMplsTtl: { wire: [{ type: 16 }], source: 'OpenFlow 1.5.1 ofp_action_generic', ...nothing, decode: () => ({ kind: 'decMplsTtl' }) },
  copyTtlOut: { wire: [{ type: 11 }], source: 'OpenFlow 1.5.1 ofp_action_generic', ...nothing, decode: () => ({ kind: 'copyTtlOut' }) },
  copyTtlIn: { wire: [{ type: 12 }], source: 'OpenFlow 1.5.1 ofp_action_generic', ...nothing, decode: () => ({ kind: 'copyTtlIn' }) },
  pushPbb: {
    wire: [{ type: 26 }],
    source: 'OpenFlow 1.5.1 ofp_action_push',
    encode: (w, a) => w.u16(a.etherType),
    decode: (r) => ({ kind: 'pushPbb', etherType: r.u16() }),
  },
  popPbb: { wire: [{ type: 27 }], source: 'OpenFlow 1.5.1 ofp_action_generic', ...nothing, decode: () => ({ kind: 'popPbb' }) },
  decNshTtl: { wire: [{ nicira: 48 }], source: 'NXAST_DEC_NSH_TTL', ...nothing, decode: () => ({ kind: 'decNshTtl' }) },
  encap: {
    wire: [{ nicira: 46 }],
    source: 'NXAST_ENCAP: u16 zero, u32 packet type, properties (u16 class, u8 type, u8 length, value, zeros to a multiple of 8)',
    encode: (w, a) => w.u16(0).u32(a.packetType).raw(a.properties),
    decode: (r) => ({ kind: 'encap', packetType: r.skip(2).u32(), properties: r.raw(r.remaining).slice() }),
  },
  decap: {
    wire: [{ nicira: 47 }],
    source: 'NXAST_DECAP: u16 zero, u32 packet type of the inner packet; 0xfffe for any',
    encode: (w, a) => w.u16(0).u32(a.packetType ?? ANY_PACKET_TYPE),
    decode: (r) => {
      const packetType = r.skip(2).u32();
      return packetType === ANY_PACKET_TYPE ? { kind: 'decap' } : { kind: 'decap', packetType };
    },
  },
  deleteField: {
    wire: [{ nicira: 50 }],
    source: 'NXAST_DELETE_FIELD: field header, zeros; 24 bytes in all',
    encode: (w, a) => w.u32(requireField(a.field).exactHeader).zeros(10),
    decode: (r) => {
      const field = fieldWithHeader(r.u32());
      return field && { kind: 'deleteField', field: field.name };
    },
  },
};

const ANY_PACKET_TYPE = 0xfffe;
