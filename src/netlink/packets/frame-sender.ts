import type { IfIndex } from '../interface-name.ts';
import { AF_PACKET, linkAddress, SOCK_NONBLOCK, SOCK_RAW } from '../sockets/socket-address.ts';
import { bind, send, socket } from '../sys.ts';

/**
 * Sends an Ethernet frame by an interface of this namespace, past routes and nftables (packet(7)).
 *
 * @throws SeineError `REFUSED` without CAP_NET_RAW, if there is no such interface, or it is down
 */
export function sendFrame(link: IfIndex, frame: Uint8Array): void {
  const fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, 0, 'packet socket');
  try {
    bind(fd.number, linkAddress(link), `to link ${link}`);
    send(fd.number, frame, 'frame');
  } finally {
    fd.close();
  }
}
