import type { Socket } from 'node:net';
import { SeineError } from '../../base/errors/seine-error.ts';
import { getSocketOption, littleEndian } from '../sys.ts';
import { SOL_SOCKET } from './socket-address.ts';

const SO_PEERCRED = 17;

/** Credentials of the peer of a unix socket: `SO_PEERCRED`, unix(7). The numbers are those at the time of `connect`. */
export function peerCredentials(fd: number): { readonly pid: number; readonly uid: number; readonly gid: number } {
  const bytes = getSocketOption(fd, SOL_SOCKET, SO_PEERCRED, 12); // struct ucred: i32 pid · u32 uid · u32 gid
  if (bytes.length !== 12) throw new SeineError('PROTOCOL', `struct ucred has 12 bytes, not ${bytes.length}`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, 12);
  return { pid: view.getInt32(0, littleEndian), uid: view.getUint32(4, littleEndian), gid: view.getUint32(8, littleEndian) };
}

/**
 * Returns the descriptor of a Node socket, for `peerCredentials` while the socket is open. Node has no public API for it.
 *
 * @throws SeineError `UNAVAILABLE` if the socket is already closed
 */
export function descriptorOf(socket: Socket): number {
  const handle: unknown = Reflect.get(socket, '_handle');
  const fd: unknown = typeof handle === 'object' && handle !== null ? Reflect.get(handle, 'fd') : undefined;
  if (typeof fd !== 'number' || fd < 0) throw new SeineError('UNAVAILABLE', 'the connection is closed already');
  return fd;
}
