import { type Ip, ipFromBytes } from '../../base/net/ip.ts';

/** One direction of a TCP connection. */
export interface TcpTuple {
  readonly src: Ip;
  readonly dst: Ip;
  readonly srcPort: number;
  readonly dstPort: number;
}

export interface TcpFrame {
  readonly tuple: TcpTuple;
  readonly isReset: boolean;
  /** Offset of the byte with the flags. */
  readonly flagsAt: number;
}

const ETHERNET_BYTES = 14;
const IPV6_BYTES = 40;
const TCP_BYTES = 20;
const TCP = 6;
const RST = 0x04;

/**
 * Decodes an untagged frame with a whole TCP header; `undefined` for anything else, including IPv6 with extension headers.
 *
 * Layouts: Ethernet II (14 bytes), IPv4 (RFC 791 section 3.1), IPv6 (RFC 8200 section 3), TCP (RFC 9293 section 3.1).
 */
export function readTcpFrame(frame: Uint8Array): TcpFrame | undefined {
  const bytes = Buffer.from(frame.buffer, frame.byteOffset, frame.byteLength);
  if (bytes.length < ETHERNET_BYTES + 20 + TCP_BYTES) return undefined;
  const etherType = bytes.readUInt16BE(12);
  if (etherType === 0x0800) {
    const headerBytes = (bytes.readUInt8(ETHERNET_BYTES) & 0xf) * 4;
    const isWhole = (bytes.readUInt16BE(ETHERNET_BYTES + 6) & 0x3fff) === 0;
    if (headerBytes < 20 || !isWhole || bytes.readUInt8(ETHERNET_BYTES + 9) !== TCP) return undefined;
    return readSegment(bytes, ETHERNET_BYTES + headerBytes, { addressesAt: ETHERNET_BYTES + 12, addressBytes: 4 });
  }
  if (etherType !== 0x86dd || bytes.readUInt8(ETHERNET_BYTES + 6) !== TCP) return undefined;
  return readSegment(bytes, ETHERNET_BYTES + IPV6_BYTES, { addressesAt: ETHERNET_BYTES + 8, addressBytes: 16 });
}

function readSegment(
  bytes: Buffer,
  at: number,
  { addressesAt, addressBytes }: { readonly addressesAt: number; readonly addressBytes: number },
): TcpFrame | undefined {
  if (bytes.length < at + TCP_BYTES) return undefined;
  const address = (n: number): Ip => ipFromBytes(bytes.subarray(addressesAt + n * addressBytes, addressesAt + (n + 1) * addressBytes));
  return {
    tuple: { src: address(0), dst: address(1), srcPort: bytes.readUInt16BE(at), dstPort: bytes.readUInt16BE(at + 2) },
    isReset: (bytes.readUInt8(at + 13) & RST) !== 0,
    flagsAt: at + 13,
  };
}

export function turned({ src, dst, srcPort, dstPort }: TcpTuple): TcpTuple {
  return { src: dst, dst: src, srcPort: dstPort, dstPort: srcPort };
}
