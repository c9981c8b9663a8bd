import { ByteWriter } from '../../../base/bytes/bytes.ts';
import { internetChecksum } from '../../../base/net/internet-checksum.ts';
import type { Ip } from '../../../base/net/ip.ts';
import { ipToBytes } from '../../../base/net/ip.ts';
import { type Mac, macToBytes } from '../../../base/net/mac.ts';

interface TestPacket {
  readonly ethSrc: Mac;
  readonly ethDst: Mac;
  readonly from: Ip;
  readonly to: Ip;
  readonly port: number;
  readonly data: Uint8Array;
}

const UDP = 17;
const HOPS = 64;
/** Identification, flags and offset as one number. */
const DO_NOT_FRAGMENT = 0x4000;

/** Frame of a datagram (RFC 768, 791, 8200) with a TTL of 64. Both addresses are of one family. */
export function encodeTestPacket({ ethSrc, ethDst, from, to, port, data }: TestPacket): Uint8Array {
  const [source, destination] = [ipToBytes(from), ipToBytes(to)];
  const length = 8 + data.length;
  const unsummed = new ByteWriter().u16(port).u16(port).u16(length).u16(0).raw(data).finish();
  const pseudo = new ByteWriter().raw(source).raw(destination).u16(UDP).u16(length).finish();
  const udp = withSum(unsummed, 6, internetChecksum(pseudo, unsummed) || 0xffff);
  const w = new ByteWriter().raw(macToBytes(ethDst)).raw(macToBytes(ethSrc));
  if (from.family === 'ipv6')
    return w.u16(0x86dd).u32(0x6000_0000).u16(length).u8(UDP).u8(HOPS).raw(source).raw(destination).raw(udp).finish();
  const header = new ByteWriter()
    .u16(0x4500)
    .u16(20 + length)
    .u32(DO_NOT_FRAGMENT)
    .u8(HOPS)
    .u8(UDP)
    .u16(0)
    .raw(source)
    .raw(destination)
    .finish();
  return w
    .u16(0x0800)
    .raw(withSum(header, 10, internetChecksum(header)))
    .raw(udp)
    .finish();
}

/** Reports whether this frame is that packet after one hop. */
export function isForwarded(frame: Uint8Array, data: Uint8Array): boolean {
  const hops = frame[12] === 0x86 ? frame[21] : frame[22];
  return hops === HOPS - 1 && Buffer.from(frame.buffer, frame.byteOffset, frame.length).includes(Buffer.from(data));
}

/** Returns these bytes with a checksum at `at`, where they are zero. */
function withSum(bytes: Uint8Array, at: number, checksum: number): Uint8Array {
  const summed = Uint8Array.from(bytes);
  new DataView(summed.buffer).setUint16(at, checksum);
  return summed;
}
