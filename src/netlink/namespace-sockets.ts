import { SeineError } from '../errors/seine-error.ts';
import type { Ip } from '../net/ip.ts';
import { kernelError } from './errno.ts';
import { familyNumber } from './kernel-values.ts';
import type { NetworkNamespace } from './namespace.ts';
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
} from './socket-address.ts';
import { bind, connect, getSocketOption, listen, littleEndian, type OwnedFd, setSocketOption, socket, Watch } from './sys.ts';

export interface Endpoint {
  readonly address: Ip;
  /** 0 lets the kernel choose. */
  readonly port: number;
}

/**
 * A TCP socket that listens inside `namespace`, for `net.Server.listen({ fd })`, which owns it from then on.
 *
 * @throws SeineError `REFUSED` with errno `EADDRINUSE`, `EADDRNOTAVAIL`, …
 */
export function listenTcpIn(namespace: NetworkNamespace, endpoint: Endpoint): number {
  return boundSocket(namespace, SOCK_STREAM, endpoint, (fd) => listen(fd, 511));
}

/** A bound UDP socket inside `namespace`, for `dgram.Socket.bind({ fd })`, which owns it from then on. */
export function bindUdpIn(namespace: NetworkNamespace, endpoint: Endpoint): number {
  return boundSocket(namespace, SOCK_DGRAM, endpoint, () => {});
}

/**
 * Connects by TCP from inside `namespace`.
 *
 * @returns a connected socket for `new net.Socket({ fd })`, which owns it from then on
 * @throws SeineError `REFUSED` with errno `ECONNREFUSED`, `EHOSTUNREACH`, …; `CANCELLED` if `signal` fires first
 */
export async function connectTcpIn(namespace: NetworkNamespace, endpoint: Endpoint, signal: AbortSignal): Promise<number> {
  const what = `${endpoint.address.text} port ${endpoint.port} from ${namespace.path}`;
  const fd = openIn(namespace, SOCK_STREAM | SOCK_NONBLOCK, endpoint);
  try {
    if (connect(fd.number, internetAddress(endpoint.address, endpoint.port), what) === 'inProgress')
      await writable(fd.number, what, signal);
    const errno = new DataView(getSocketOption(fd.number, SOL_SOCKET, SO_ERROR, 4).slice().buffer).getInt32(0, littleEndian);
    if (errno !== 0) throw kernelError('connect', errno, `connect ${what}`);
    return fd.release();
  } finally {
    fd.close();
  }
}

function openIn(namespace: NetworkNamespace, type: number, { address }: Endpoint): OwnedFd {
  return namespace.run(() => socket(familyNumber[address.family], type, 0, 'socket in a namespace'));
}

function boundSocket(namespace: NetworkNamespace, type: number, endpoint: Endpoint, then: (fd: number) => void): number {
  const fd = openIn(namespace, type, endpoint);
  try {
    setSocketOption(fd.number, SOL_SOCKET, SO_REUSEADDR, 1);
    if (endpoint.address.family === 'ipv6') setSocketOption(fd.number, SOL_IPV6, IPV6_V6ONLY, 1);
    bind(
      fd.number,
      internetAddress(endpoint.address, endpoint.port),
      `to ${endpoint.address.text} port ${endpoint.port} in ${namespace.path}`,
    );
    then(fd.number);
    return fd.release();
  } finally {
    fd.close();
  }
}

function writable(fd: number, what: string, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const cancelled = () => {
      watch.close();
      reject(new SeineError('CANCELLED', `connect ${what}`, { cause: signal.reason }));
    };
    const watch = new Watch(fd, 'writable', () => {
      watch.close();
      signal.removeEventListener('abort', cancelled);
      resolve();
    });
    signal.addEventListener('abort', cancelled, { once: true });
    if (signal.aborted) cancelled();
  });
}
