import { SeineError } from '../errors/seine-error.ts';
import { type Ip, ipToBytes } from '../net/ip.ts';
import { kernelError } from './errno.ts';
import { familyNumber } from './kernel-values.ts';
import type { NetworkNamespace } from './namespace.ts';
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
    if (connect(fd.number, socketAddress(endpoint), what) === 'inProgress') await writable(fd.number, what, signal);
    const errno = new DataView(getSocketOption(fd.number, SOL_SOCKET, SO_ERROR, 4).slice().buffer).getInt32(0, littleEndian);
    if (errno !== 0) throw kernelError('connect', errno, `connect ${what}`);
    return fd.release();
  } finally {
    fd.close();
  }
}

const SOCK_STREAM = 1;
const SOCK_DGRAM = 2;
const SOCK_NONBLOCK = 0o4000;
const SOL_SOCKET = 1;
const SO_REUSEADDR = 2;
const SO_ERROR = 4;
const SOL_IPV6 = 41;
const IPV6_V6ONLY = 26;

function openIn(namespace: NetworkNamespace, type: number, { address }: Endpoint): OwnedFd {
  return namespace.run(() => socket(familyNumber[address.family], type, 0, 'socket in a namespace'));
}

function boundSocket(namespace: NetworkNamespace, type: number, endpoint: Endpoint, then: (fd: number) => void): number {
  const fd = openIn(namespace, type, endpoint);
  try {
    setSocketOption(fd.number, SOL_SOCKET, SO_REUSEADDR, 1);
    if (endpoint.address.family === 'ipv6') setSocketOption(fd.number, SOL_IPV6, IPV6_V6ONLY, 1);
    bind(fd.number, socketAddress(endpoint), `to ${endpoint.address.text} port ${endpoint.port} in ${namespace.path}`);
    then(fd.number);
    return fd.release();
  } finally {
    fd.close();
  }
}

/**
 * struct sockaddr_in:  u16 family · u16 port · 4 octets · 8 zeros
 * struct sockaddr_in6: u16 family · u16 port · u32 flow · 16 octets · u32 scope
 * The family in the machine's byte order, the port in the network's.
 */
function socketAddress({ address, port }: Endpoint): Uint8Array {
  if (!Number.isInteger(port) || port < 0 || port > 65535) throw new SeineError('INVALID_INPUT', `${port} is no port`);
  const bytes = new Uint8Array(address.family === 'ipv4' ? 16 : 28);
  const view = new DataView(bytes.buffer);
  view.setUint16(0, familyNumber[address.family], littleEndian);
  view.setUint16(2, port, false);
  bytes.set(ipToBytes(address), address.family === 'ipv4' ? 4 : 8);
  return bytes;
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
