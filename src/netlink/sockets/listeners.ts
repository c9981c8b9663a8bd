import { familyNumber } from '../kernel-values.ts';
import { type Batch, splitPayload } from '../message.ts';
import type { NetlinkSocket } from '../socket.ts';
import { littleEndian } from '../sys.ts';

/** Socket that listens on a port. */
interface PortListener {
  /** User of the socket. On a port that any process may bind, a process cannot choose this. */
  readonly user: number;
  /** Maximum number of waiting connections: the argument of listen(2), or `net.core.somaxconn` if that is less. */
  readonly backlog: number;
}

/**
 * Lists the sockets that listen on a TCP port, on any address. Source: sock_diag(7), `struct inet_diag_req_v2` and `inet_diag_msg` of
 * linux/inet_diag.h.
 *
 * @param socket of protocol `socketDiagnosis`
 */
export function listenersOn(socket: NetlinkSocket, port: number): readonly PortListener[] {
  return (['ipv4', 'ipv6'] as const).flatMap((family) =>
    socket.dump(
      SOCK_DIAG_BY_FAMILY,
      `listeners of ${family}`,
      (batch) => request(batch, familyNumber[family]),
      ({ type, payload }) => {
        if (type !== SOCK_DIAG_BY_FAMILY) return undefined;
        const { head } = splitPayload(payload, MESSAGE_BYTES, 'inet_diag_msg');
        if (head.getUint16(SOURCE_PORT_AT, false) !== port) return undefined;
        return { user: head.getUint32(UID_AT, littleEndian), backlog: head.getUint32(WRITE_QUEUE_AT, littleEndian) };
      },
    ),
  );
}

const SOCK_DIAG_BY_FAMILY = 20;
const IPPROTO_TCP = 6;
/** `1 << TCP_LISTEN` */
const LISTENING = 1 << 10;
/** `struct inet_diag_sockid`: ports, addresses, interface and cookie */
const SOCKET_ID_BYTES = 48;
/** u8 family · u8 state · u8 timer · u8 retransmissions · the socket’s id · u32 expires, queues, uid, inode */
const MESSAGE_BYTES = 4 + SOCKET_ID_BYTES + 20;
const SOURCE_PORT_AT = 4;
/** Offset of the backlog of a socket that listens. */
const WRITE_QUEUE_AT = 4 + SOCKET_ID_BYTES + 8;
const UID_AT = 4 + SOCKET_ID_BYTES + 12;

function request(batch: Batch, family: number): void {
  batch.u8(family).u8(IPPROTO_TCP).u8(0).u8(0).u32(LISTENING);
  for (let at = 0; at < SOCKET_ID_BYTES; at += 4) batch.u32(0);
}
