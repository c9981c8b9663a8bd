import type { NetlinkSocket } from './socket.ts';
import { ioctlInterface, littleEndian } from './sys.ts';

/** Offloads of an interface. Source: `ETHTOOL_G*` of linux/ethtool.h. */
export interface Offloads {
  readonly transmitChecksum: 'on' | 'off';
  readonly receiveChecksum: 'on' | 'off';
  readonly scatterGather: 'on' | 'off';
  readonly tcpSegmentation: 'on' | 'off';
  readonly genericSegmentation: 'on' | 'off';
  readonly genericReceive: 'on' | 'off';
}

/**
 * Makes the sender compute checksums itself, like `ethtool -K NAME tx off`; this also disables segmentation offload.
 *
 * The userspace datapath reads frames by AF_PACKET and forwards them unchanged: with transmit checksum offload on in a pod, every TCP
 * segment and UDP datagram it sends arrives with a wrong checksum (ICMP does not, so ping works).
 *
 * @param socket any netlink socket of the interface's namespace
 */
export function setTransmitChecksum(socket: NetlinkSocket, name: string, state: 'on' | 'off'): void {
  value(socket, name, ETHTOOL_STXCSUM, state === 'on' ? 1 : 0, `turn transmit checksum offload of ${name} ${state}`);
}

/** @throws SeineError `REFUSED` with errno `ENODEV` if there is no such interface */
export function readTransmitChecksum(socket: NetlinkSocket, name: string): 'on' | 'off' {
  return value(socket, name, ETHTOOL_GTXCSUM, 0, `read offloads of ${name}`) === 0 ? 'off' : 'on';
}

/** @throws SeineError `REFUSED` with errno `ENODEV` if there is no such interface */
export function readOffloads(socket: NetlinkSocket, name: string): Offloads {
  const read = (command: number) => (value(socket, name, command, 0, `read offloads of ${name}`) === 0 ? 'off' : 'on');
  return {
    transmitChecksum: read(ETHTOOL_GTXCSUM),
    receiveChecksum: read(0x14),
    scatterGather: read(0x18),
    tcpSegmentation: read(0x1e),
    genericSegmentation: read(0x23),
    genericReceive: read(0x2b),
  };
}

const SIOCETHTOOL = 0x8946;
const ETHTOOL_GTXCSUM = 0x16;
const ETHTOOL_STXCSUM = 0x17;

/** `struct ethtool_value`: u32 command · u32 value, which the kernel overwrites. */
function value(socket: NetlinkSocket, name: string, command: number, data: number, what: string): number {
  const bytes = new Uint8Array(8);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, command, littleEndian);
  view.setUint32(4, data, littleEndian);
  ioctlInterface(socket.fd, SIOCETHTOOL, Buffer.from(name, 'utf8'), bytes, what);
  return view.getUint32(4, littleEndian);
}
