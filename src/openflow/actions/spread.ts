import type { ByteReader, ByteWriter } from '../../base/bytes/bytes.ts';
import { packSubfield, shortHeader, unpackSubfield } from '../match/oxm.ts';
import { type BundleMembersAction, hashFields, memberAlgorithms, multipathAlgorithms } from './action.ts';
import { type ActionRows, port16, port32 } from './codec.ts';

const IN_PORT_16 = 2;

/** Actions that choose one of several ports or numbers by a hash of the packet. */
export const spreadRows: ActionRows<'multipath' | 'bundleMembers'> = {
  multipath: {
    wire: [{ nicira: 10 }],
    source:
      'NXAST_MULTIPATH: u16 fields, u16 basis, 2 zero, u16 algorithm, u16 greatest link, u32 argument, 2 zero, u16 offset and size, u32 field',
    encode: (w, a) => {
      w.u16(hashFields.indexOf(a.fields)).u16(a.basis).zeros(2).u16(multipathAlgorithms.indexOf(a.algorithm));
      w.u16(a.links - 1)
        .u32(a.argument)
        .zeros(2);
      w.u16(packSubfield(a.to)).u32(shortHeader(a.to.field));
    },
    decode: (r) => {
      const [fields, basis] = [hashFields[r.u16()], r.u16()];
      const [algorithm, links, argument] = [multipathAlgorithms[r.skip(2).u16()], r.u16() + 1, r.u32()];
      const packed = r.skip(2).u16();
      const to = unpackSubfield(r.u32(), packed);
      return fields && algorithm && to && { kind: 'multipath', fields, basis, algorithm, links, argument, to };
    },
  },
  bundleMembers: {
    wire: [{ nicira: 12 }, { nicira: 13 }],
    choose: (a) => (a.to === undefined ? 0 : 1),
    source:
      'NXAST_BUNDLE, NXAST_BUNDLE_LOAD: u16 algorithm, u16 fields, u16 basis, u32 kind of members, u16 members, u16 offset and size, u32 field, 4 zero, u16 ports',
    encode: writeMembers,
    decode: readMembers,
  },
};

function writeMembers(w: ByteWriter, a: BundleMembersAction): void {
  w.u16(memberAlgorithms.indexOf(a.algorithm)).u16(hashFields.indexOf(a.fields)).u16(a.basis).u32(IN_PORT_16).u16(a.members.length);
  if (a.to === undefined) w.u16(0).u32(0);
  else w.u16(packSubfield(a.to)).u32(shortHeader(a.to.field));
  w.zeros(4);
  for (const member of a.members) w.u16(port16(member));
}

function readMembers(r: ByteReader, _nested: unknown, form: number): BundleMembersAction | undefined {
  const [algorithm, fields, basis] = [memberAlgorithms[r.u16()], hashFields[r.u16()], r.u16()];
  const [kind, count, packed] = [r.u32(), r.u16(), r.u16()];
  const header = r.u32();
  const to = form === 1 ? unpackSubfield(header, packed) : undefined;
  if (algorithm === undefined || fields === undefined || kind !== IN_PORT_16 || (form === 1 && to === undefined)) return undefined;
  r.skip(4);
  const members = Array.from({ length: count }, () => port32(r.u16()));
  return { kind: 'bundleMembers', algorithm, fields, basis, ...(to === undefined ? {} : { to }), members };
}
