import { createSocket, type Socket as DatagramSocket } from 'node:dgram';
import { Socket } from 'node:net';
import { getSystemErrorName } from 'node:util';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { type Family, parseIp } from '../../src/base/net/ip.ts';
import { familyNumber } from '../../src/netlink/kernel-values.ts';
import { NetworkNamespace } from '../../src/netlink/namespace.ts';
import {
  IPV6_V6ONLY,
  internetAddress,
  SO_ERROR,
  SO_REUSEADDR,
  SOCK_DGRAM,
  SOCK_NONBLOCK,
  SOCK_STREAM,
  SOL_IPV6,
  SOL_SOCKET,
} from '../../src/netlink/sockets/socket-address.ts';
import {
  bind,
  connect,
  getSocketOption,
  listen,
  littleEndian,
  type OwnedFd,
  setSocketOption,
  socket,
  Watch,
} from '../../src/netlink/sys.ts';
import { type NetnsRef, netnsPath } from '../plan/names.ts';

const backlog = 511;

/** A listening descriptor, for `server.listen({ fd })`. Port 0 lets the kernel choose. */
export function listenTcpIn(place: NetnsRef, address: string, port: number): number {
  const fd = openIn(place, parseIp(address).family, SOCK_STREAM);
  try {
    setSocketOption(fd.number, SOL_SOCKET, SO_REUSEADDR, 1);
    bind(fd.number, internetAddress(parseIp(address), port), `${address} port ${port}`);
    listen(fd.number, backlog);
    return fd.release();
  } catch (error) {
    fd.close();
    throw error;
  }
}

/** A socket that receives on this address of the namespace. */
export async function bindUdpIn(place: NetnsRef, address: string, port: number): Promise<DatagramSocket> {
  const { family } = parseIp(address);
  const fd = openIn(place, family, SOCK_DGRAM);
  try {
    bind(fd.number, internetAddress(parseIp(address), port), `${address} port ${port}`);
  } catch (error) {
    fd.close();
    throw error;
  }
  const datagrams = createSocket({ type: family === 'ipv4' ? 'udp4' : 'udp6' });
  await new Promise<void>((resolve, reject) => {
    datagrams.once('error', reject);
    datagrams.bind({ fd: fd.release() }, resolve);
  });
  return datagrams;
}

/**
 * Connects from inside a namespace.
 *
 * @throws SeineError `REFUSED` with `context.errno`, e.g. `ECONNREFUSED`; `CANCELLED` if the signal came first
 */
export async function connectTcpIn(place: NetnsRef, address: string, port: number, signal: AbortSignal): Promise<Socket> {
  const fd = openIn(place, parseIp(address).family, SOCK_STREAM | SOCK_NONBLOCK);
  try {
    if (connect(fd.number, internetAddress(parseIp(address), port), `to ${address} port ${port}`) === 'inProgress')
      await writable(fd, signal);
    const errno = Buffer.from(getSocketOption(fd.number, SOL_SOCKET, SO_ERROR, 4))[littleEndian ? 'readInt32LE' : 'readInt32BE']();
    if (errno !== 0) throw refused(`connect to ${address} port ${port}`, getSystemErrorName(-errno));
    return new Socket({ fd: fd.release(), readable: true, writable: true, allowHalfOpen: true });
  } catch (error) {
    fd.close();
    throw error;
  }
}

function writable(fd: OwnedFd, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const settle = (outcome: () => void) => {
      watch.close();
      signal.removeEventListener('abort', onAbort);
      outcome();
    };
    const onAbort = () => settle(() => reject(new SeineError('CANCELLED', 'connect', { cause: signal.reason })));
    const watch = new Watch(fd.number, 'writable', () => settle(resolve));
    signal.addEventListener('abort', onAbort);
    if (signal.aborted) onAbort();
  });
}

function refused(doing: string, errno: string): SeineError {
  return new SeineError('REFUSED', `${doing}: ${errno}`, { context: { errno } });
}

function openIn(place: NetnsRef, family: Family, type: number): OwnedFd {
  const make = () => socket(familyNumber[family], type, 0, 'socket');
  if (place === 'here') return inOnlyOneFamily(make(), family);
  const namespace = NetworkNamespace.open(netnsPath(place));
  try {
    return inOnlyOneFamily(
      namespace.run(() => make()),
      family,
    );
  } finally {
    namespace.close();
  }
}

/** Restricts a socket to one family, so that `::` and `0.0.0.0` can each have one. */
function inOnlyOneFamily(fd: OwnedFd, family: Family): OwnedFd {
  if (family === 'ipv6') setSocketOption(fd.number, SOL_IPV6, IPV6_V6ONLY, 1);
  return fd;
}
