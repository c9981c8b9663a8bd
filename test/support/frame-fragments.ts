import { ByteWriter } from '../../src/base/bytes/bytes.ts';

const ethernetBytes = 14;
const headerBytes = { ipv4: 20, ipv6: 40 } as const;
/** IANA protocol numbers: the fragment header of IPv6. */
const fragmentHeader = 44;

/**
 * One datagram in several frames.
 *
 * Open vSwitch reassembles only fragments of 1200 bytes and more (IPv6: 1280), the last one excepted.
 *
 * @param frame a whole one, without options
 * @param identification of the datagram: 2 bytes for IPv4 (RFC 791 section 3.1), 4 for IPv6 (RFC 8200 section 4.5)
 * @param size bytes of the datagram in each fragment, a multiple of 8
 */
export function fragmentsOf(frame: Uint8Array, identification: number, size = 1_288): readonly Uint8Array[] {
  const family = frame[12] === 0x08 ? 'ipv4' : 'ipv6';
  const start = ethernetBytes + headerBytes[family];
  const body = frame.subarray(start);
  const cuts = Array.from({ length: Math.ceil(body.length / size) }, (_, index) => index * size);
  const fragment = family === 'ipv4' ? fragmentOfIpv4 : fragmentOfIpv6;
  return cuts.map((from) =>
    fragment(frame.subarray(0, start), body.subarray(from, from + size), { from, more: from + size < body.length, identification }),
  );
}

interface Cut {
  readonly from: number;
  readonly more: boolean;
  readonly identification: number;
}

function fragmentOfIpv4(head: Uint8Array, part: Uint8Array, { from, more, identification }: Cut): Uint8Array {
  const header = Uint8Array.from(head.subarray(ethernetBytes));
  const view = new DataView(header.buffer);
  view.setUint16(2, header.length + part.length);
  view.setUint16(4, identification & 0xffff);
  view.setUint16(6, (more ? 0x2000 : 0) | (from / 8));
  view.setUint16(10, 0);
  view.setUint16(10, checksum(view));
  return Buffer.concat([head.subarray(0, ethernetBytes), header, part]);
}

function fragmentOfIpv6(head: Uint8Array, part: Uint8Array, { from, more, identification }: Cut): Uint8Array {
  const header = Uint8Array.from(head.subarray(ethernetBytes));
  const [next = 0] = header.subarray(6, 7);
  const fragment = new ByteWriter()
    .u8(next)
    .u8(0)
    .u16(from | (more ? 1 : 0))
    .u32(identification)
    .finish();
  header[6] = fragmentHeader;
  new DataView(header.buffer).setUint16(4, fragment.length + part.length);
  return Buffer.concat([head.subarray(0, ethernetBytes), header, fragment, part]);
}

/** RFC 1071. */
function checksum(header: DataView): number {
  let sum = 0;
  for (let at = 0; at < header.byteLength; at += 2) sum += header.getUint16(at);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  return ~sum & 0xffff;
}
