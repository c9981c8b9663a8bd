import type { Family, Ip } from '../../base/net/ip.ts';
import { familyNumber, ipIn } from '../kernel-values.ts';
import { type Batch, type NetlinkMessage, splitPayload } from '../message.ts';
import type { NetlinkSocket } from '../socket.ts';
import { littleEndian } from '../sys.ts';

/** Socket that receives packets of any client on its port. */
export interface ListeningSocket {
  readonly family: Family;
  /** Unspecified: every address of the family. */
  readonly address: Ip;
  /** A socket of IPv6 at the unspecified address also receives IPv4, unless it is restricted to IPv6. */
  readonly isIpv6Only: boolean;
  /** User of the socket. On a port that any process may bind, a process cannot choose this. */
  readonly user: number;
  /** Maximum number of waiting connections of TCP: the argument of listen(2), or `net.core.somaxconn` if that is less. */
  readonly backlog: number;
}

/**
 * Lists sockets that listen on one port: TCP in LISTEN, UDP without a peer. The kernel filters by port, so the answer is as short as the
 * list. Source: sock_diag(7), `struct inet_diag_req_v2` and `inet_diag_msg` of linux/inet_diag.h.
 *
 * @param socket of protocol `socketDiagnosis`, in the node's namespace
 * @throws SeineError if the kernel has no diagnosis of this protocol
 */
export function listeningSockets(socket: NetlinkSocket, transport: 'tcp' | 'udp', port: number): readonly ListeningSocket[] {
  return (['ipv4', 'ipv6'] as const).flatMap((family) =>
    socket.dump(
      SOCK_DIAG_BY_FAMILY,
      `${transport} sockets of ${family} on port ${port}`,
      (batch) => request(batch, { family, transport, port }),
      (message) => decode(message, family, port),
    ),
  );
}

/** Lists the sockets of all ports in the same way, by port: for a caller that asks about many. */
export function listeningSocketsByPort(socket: NetlinkSocket, transport: 'tcp' | 'udp'): ReadonlyMap<number, readonly ListeningSocket[]> {
  const found = new Map<number, ListeningSocket[]>();
  for (const family of ['ipv4', 'ipv6'] as const)
    socket.dump(
      SOCK_DIAG_BY_FAMILY,
      `${transport} sockets of ${family}`,
      (batch) => request(batch, { family, transport, port: 0 }),
      (message) => {
        const port = portOf(message);
        const listening = port === undefined ? undefined : decode(message, family, port);
        if (port !== undefined && listening) found.set(port, [...(found.get(port) ?? []), listening]);
        return undefined;
      },
    );
  return found;
}

const SOCK_DIAG_BY_FAMILY = 20;
const protocols = { tcp: 6, udp: 17 } as const;
/** `1 << TCP_LISTEN`; a UDP socket without a peer is in `TCP_CLOSE`. */
const states = { tcp: 1 << 10, udp: 1 << 7 } as const;
/** u16 port, u16 peer's port, 16 bytes address, 16 bytes peer's address, u32 interface, u64 cookie */
const SOCKET_ID_BYTES = 48;
/** u8 family · u8 state · u8 timer · u8 retransmissions · the socket’s id · u32 expires, queues, uid, inode */
const MESSAGE_BYTES = 4 + SOCKET_ID_BYTES + 20;
const PORT_AT = 4;
const PEER_PORT_AT = 6;
const ADDRESS_AT = 8;
/** Offset of the backlog of a socket that listens. */
const WRITE_QUEUE_AT = 4 + SOCKET_ID_BYTES + 8;
const USER_AT = 4 + SOCKET_ID_BYTES + 12;
const INET_DIAG_SKV6ONLY = 11;
const addressBytes = { ipv4: 4, ipv6: 16 } as const;

interface SocketQuery {
  readonly family: Family;
  readonly transport: 'tcp' | 'udp';
  readonly port: number;
}

function request(batch: Batch, { family, transport, port }: SocketQuery): void {
  batch.u8(familyNumber[family]).u8(protocols[transport]).u8(0).u8(0).u32(states[transport]);
  batch.u8(port >> 8).u8(port & 0xff); // in network byte order
  for (let at = 2; at < SOCKET_ID_BYTES; at += 2) batch.u16(0);
}

function portOf({ type, payload }: NetlinkMessage): number | undefined {
  return type === SOCK_DIAG_BY_FAMILY ? splitPayload(payload, MESSAGE_BYTES, 'inet_diag_msg').head.getUint16(PORT_AT, false) : undefined;
}

function decode({ type, payload }: NetlinkMessage, family: Family, port: number): ListeningSocket | undefined {
  if (type !== SOCK_DIAG_BY_FAMILY) return undefined;
  const { head, attributes } = splitPayload(payload, MESSAGE_BYTES, 'inet_diag_msg');
  if (head.getUint16(PORT_AT, false) !== port || head.getUint16(PEER_PORT_AT, false) !== 0) return undefined;
  const address = ipIn(payload.slice(ADDRESS_AT, ADDRESS_AT + addressBytes[family]), family, 'address of a socket');
  const [user, backlog] = [head.getUint32(USER_AT, littleEndian), head.getUint32(WRITE_QUEUE_AT, littleEndian)];
  return { family, address, isIpv6Only: attributes.u8(INET_DIAG_SKV6ONLY) === 1, user, backlog };
}
