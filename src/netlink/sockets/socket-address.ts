import { SeineError } from '../../base/errors/seine-error.ts';
import { type Ip, ipToBytes } from '../../base/net/ip.ts';
import { familyNumber } from '../kernel-values.ts';
import { littleEndian } from '../sys.ts';

/*
 * Arguments of socket(2), bind(2) and socket options, as numbers of Linux on every supported architecture: sys/socket.h, netinet/in.h,
 * linux/if_ether.h.
 */

export const AF_PACKET = 17;
export const SOCK_STREAM = 1;
export const SOCK_DGRAM = 2;
export const SOCK_RAW = 3;
export const SOCK_NONBLOCK = 0o4000;
export const SOL_SOCKET = 1;
export const SO_REUSEADDR = 2;
export const SO_ERROR = 4;
export const SOL_IPV6 = 41;
export const IPV6_V6ONLY = 26;
/** In network byte order, as the kernel expects it. */
export const ETH_P_ALL = littleEndian ? 0x0300 : 0x0003;

/**
 * struct sockaddr_in:  u16 family · u16 port · 4 bytes · 8 zeros
 * struct sockaddr_in6: u16 family · u16 port · u32 flow · 16 bytes · u32 scope
 * The family in host byte order, the port in network byte order.
 *
 * @param port 0 lets the kernel choose, and is that of raw sockets
 * @throws SeineError `INVALID_INPUT` if the port is none
 */
export function internetAddress(address: Ip, port = 0): Uint8Array {
  if (!Number.isInteger(port) || port < 0 || port > 65535) throw new SeineError('INVALID_INPUT', `${port} is not a port`);
  const bytes = new Uint8Array(address.family === 'ipv4' ? 16 : 28);
  const view = new DataView(bytes.buffer);
  view.setUint16(0, familyNumber[address.family], littleEndian);
  view.setUint16(2, port, false);
  bytes.set(ipToBytes(address), address.family === 'ipv4' ? 4 : 8);
  return bytes;
}

/**
 * struct sockaddr_ll: u16 family · u16 protocol · i32 index · u16 hardware · u8 packet type · u8 length · 8 bytes
 *
 * @param protocol of the frames to be received, in network byte order; 0 for none
 */
export function linkAddress(index: number, protocol = 0): Uint8Array {
  const bytes = new Uint8Array(20);
  const view = new DataView(bytes.buffer);
  view.setUint16(0, AF_PACKET, littleEndian);
  view.setUint16(2, protocol, littleEndian);
  view.setInt32(4, index, littleEndian);
  return bytes;
}
