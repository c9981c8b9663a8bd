import { ByteReader, type ByteWriter } from '../../base/bytes/bytes.ts';
import { packSubfield, shortHeader, unpackSubfield } from '../match/oxm.ts';
import type { CtAction, NatAction } from './action.ts';
import type { ActionRows } from './codec.ts';

const COMMIT = 1;
const FORCE = 2;
const NO_TABLE = 0xff;

/** Header of `nat`, which is an action of its own and the first of the nested actions of its `ct`. */
const natHeader = { experimenter: 0xffff, nicira: 0x2320, subtype: 36 } as const;

/**
 * `ct` and, inside it, `nat`.
 *
 *     ct:  u16 flags, u32 zone field header or 0, u16 zone (or offset and size), u8 table, 3 bytes zero, u16 alg, actions
 *     nat: 2 bytes zero, u16 flags, u16 what follows: first and last address (4 or 16 bytes), first and last port
 */
export const conntrackRows: ActionRows<'ct'> = {
  ct: {
    wire: [{ nicira: 35 }],
    source: 'NXAST_CT, NXAST_NAT; ovs-actions(7) "ct"',
    encode: (w, a, nested) => {
      w.u16((a.commit ? COMMIT : 0) + (a.force ? FORCE : 0));
      if (typeof a.zone === 'number') w.u32(0).u16(a.zone);
      else w.u32(shortHeader(a.zone.field)).u16(packSubfield(a.zone));
      w.u8(a.table ?? NO_TABLE)
        .zeros(3)
        .u16(a.alg ?? 0);
      if (a.nat !== undefined) writeNat(w, a.nat);
      nested.encode(w, a.exec);
    },
    decode: (r, nested) => {
      const flags = r.u16();
      const zone = readZone(r);
      const table = r.u8();
      const alg = r.skip(3).u16();
      if (zone === undefined) return undefined;
      const nat = takeNat(r);
      return {
        kind: 'ct',
        commit: (flags & COMMIT) !== 0,
        ...(flags & FORCE ? { force: true } : {}),
        zone,
        ...(table === NO_TABLE ? {} : { table }),
        ...(nat === undefined ? {} : { nat }),
        ...(alg === 0 ? {} : { alg }),
        exec: nested.decode(r),
      };
    },
  },
};

function readZone(r: ByteReader): CtAction['zone'] | undefined {
  const header = r.u32();
  const packed = r.u16();
  return header === 0 ? packed : unpackSubfield(header, packed);
}

const SOURCE = 1;
const DESTINATION = 2;
const PERSISTENT = 4;
const HASH = 8;
const RANDOM = 16;

const IPV4_FIRST = 1;
const IPV4_LAST = 2;
const IPV6_FIRST = 4;
const IPV6_LAST = 8;
const PORT_FIRST = 16;
const PORT_LAST = 32;

function writeNat(w: ByteWriter, nat: NatAction): void {
  const start = w.length;
  w.u16(natHeader.experimenter).u16(0).u32(natHeader.nicira).u16(natHeader.subtype).zeros(2);
  w.u16(
    (nat.direction === 'src' ? SOURCE : nat.direction === 'dst' ? DESTINATION : 0) +
      (nat.persistent ? PERSISTENT : 0) +
      (nat.hash ? HASH : 0) +
      (nat.random ? RANDOM : 0),
  );
  const present = w.length;
  w.u16(0).patchU16(present, writeNatRanges(w, nat));
  w.alignTo(8, start).patchU16(start + 2, w.length - start);
}

/** @returns the flags for what was written */
function writeNatRanges(w: ByteWriter, { addresses, ports }: NatAction): number {
  let flags = 0;
  if (addresses?.family === 'ipv4') {
    w.u32(addresses.first);
    if (addresses.last !== undefined) w.u32(addresses.last);
    flags += addresses.last === undefined ? IPV4_FIRST : IPV4_FIRST + IPV4_LAST;
  } else if (addresses?.family === 'ipv6') {
    writeIpv6(w, addresses.first);
    if (addresses.last !== undefined) writeIpv6(w, addresses.last);
    flags += addresses.last === undefined ? IPV6_FIRST : IPV6_FIRST + IPV6_LAST;
  }
  if (ports !== undefined) {
    w.u16(ports.first);
    if (ports.last !== undefined) w.u16(ports.last);
    flags += ports.last === undefined ? PORT_FIRST : PORT_FIRST + PORT_LAST;
  }
  return flags;
}

function writeIpv6(w: ByteWriter, value: bigint): void {
  w.u64(value >> 64n).u64(value & 0xffff_ffff_ffff_ffffn);
}

/** Reads a `nat` from the front of the nested actions; `undefined` if there is none. */
function takeNat(r: ByteReader): NatAction | undefined {
  const start = r.offset;
  const isNat =
    r.remaining >= 16 && r.u16() === natHeader.experimenter && r.skip(2).u32() === natHeader.nicira && r.u16() === natHeader.subtype;
  r.offset = start;
  return isNat ? readNat(new ByteReader(r.raw(r.peekU16(2)), 'nat action')) : undefined;
}

function readNat(r: ByteReader): NatAction {
  const flags = r.skip(12).u16();
  const present = r.u16();
  const addresses = readNatAddresses(r, present);
  const ports = present & PORT_FIRST ? { first: r.u16(), ...(present & PORT_LAST ? { last: r.u16() } : {}) } : undefined;
  return {
    ...(flags & SOURCE ? { direction: 'src' } : flags & DESTINATION ? { direction: 'dst' } : {}),
    ...(addresses === undefined ? {} : { addresses }),
    ...(ports === undefined ? {} : { ports }),
    ...(flags & PERSISTENT ? { persistent: true } : {}),
    ...(flags & HASH ? { hash: true } : {}),
    ...(flags & RANDOM ? { random: true } : {}),
  };
}

function readNatAddresses(r: ByteReader, present: number): NatAction['addresses'] {
  if (present & IPV4_FIRST) return { family: 'ipv4', first: r.u32(), ...(present & IPV4_LAST ? { last: r.u32() } : {}) };
  if (present & IPV6_FIRST) return { family: 'ipv6', first: readIpv6(r), ...(present & IPV6_LAST ? { last: readIpv6(r) } : {}) };
  return undefined;
}

function readIpv6(r: ByteReader): bigint {
  return (r.u64() << 64n) | r.u64();
}
