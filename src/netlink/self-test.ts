import { SeineError } from '../base/errors/seine-error.ts';
import { errnoOf } from './errno.ts';
import { getLink } from './links.ts';
import { NetlinkSocket } from './socket.ts';
import { abiSizes, fileSystemType, open, receive, warmThreadPool } from './sys.ts';

/**
 * Checks, before anything is programmed, that system calls work as expected on this host, and starts the thread pool.
 *
 * Takes under 10 ms and changes nothing. To be called once, first, from the main thread.
 *
 * @throws SeineError `REFUSED` with the missing feature
 */
export function selfTest(): void {
  warmThreadPool();
  sizes();
  errors();
  namespaces();
  netlink();
}

function sizes(): void {
  const found = abiSizes();
  const differing = Object.entries({ int: 4, long: 8, pointer: 8, size_t: 8, ifreq: 40 }).filter(([name, size]) => found[name] !== size);
  if (differing.length > 0) fail(`C types have other sizes here (${process.arch}): ${JSON.stringify(found)}`);
}

function errors(): void {
  try {
    open('/proc/self/no-such-file', 0, 'file').close();
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return;
    fail('system calls do not report errors as they should', error);
  }
  fail('opening a file that cannot exist succeeded');
}

function namespaces(): void {
  const fd = attempt('network namespaces are not there (is /proc mounted?)', () => open('/proc/thread-self/ns/net', 0, 'namespace'));
  try {
    if (fileSystemType(fd.number) !== 0x6e73_6673) fail('/proc/thread-self/ns/net is not a namespace');
  } finally {
    fd.close();
  }
}

function netlink(): void {
  const socket = attempt('routing sockets cannot be used (CAP_NET_ADMIN is needed)', () => NetlinkSocket.open());
  try {
    const loopback = attempt('the kernel does not answer on a routing socket', () => getLink(socket, 'lo'));
    if (loopback === undefined || loopback.index !== 1 || !loopback.loopback)
      fail(`the loopback interface reads as ${JSON.stringify(loopback)}`);
    if (receive(socket.fd, new Uint8Array(16), 'self-test') !== 'empty') fail('the kernel answered with unexpected messages');
  } finally {
    socket.close();
  }
}

function attempt<T>(complaint: string, action: () => T): T {
  try {
    return action();
  } catch (error) {
    return fail(complaint, error);
  }
}

function fail(complaint: string, cause?: unknown): never {
  const because = cause instanceof Error ? `: ${cause.message}` : '';
  throw new SeineError('REFUSED', `self-test of the kernel interface: ${complaint}${because}`, { cause });
}
