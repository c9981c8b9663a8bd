import { SeineError } from '../../base/errors/seine-error.ts';
import type { Ip } from '../../base/net/ip.ts';
import { errnoOf } from '../errno.ts';
import { familyNumber } from '../kernel-values.ts';
import { bind, connect, getSocketOption, littleEndian, type OwnedFd, socket, Watch } from '../sys.ts';
import { internetAddress, SO_ERROR, SOCK_NONBLOCK, SOCK_STREAM, SOL_SOCKET } from './socket-address.ts';

/** Outcome of an attempt to open a connection. `prohibited`: an ICMP error reports that a firewall or policy denies it. */
type ConnectOutcome = 'connected' | 'refused' | 'timed out' | 'no route' | 'prohibited';

/** Numbers of errors on every supported architecture. Source: asm-generic/errno.h; connect(2), ip(7). */
const outcomes: Readonly<Record<number, ConnectOutcome>> = {
  0: 'connected',
  1: 'prohibited', // EPERM
  13: 'prohibited', // EACCES
  99: 'no route', // EADDRNOTAVAIL
  101: 'no route', // ENETUNREACH
  104: 'refused', // ECONNRESET
  110: 'timed out', // ETIMEDOUT
  111: 'refused', // ECONNREFUSED
  113: 'prohibited', // EHOSTUNREACH, also for the ICMP codes of "administratively prohibited"
};
const immediate: Readonly<Record<string, ConnectOutcome>> = {
  ECONNREFUSED: 'refused',
  ENETUNREACH: 'no route',
  EHOSTUNREACH: 'no route',
  EADDRNOTAVAIL: 'no route',
  EACCES: 'prohibited',
  EPERM: 'prohibited',
};

interface TcpEnds {
  readonly from: Ip;
  readonly to: Ip;
  readonly port: number;
}

/** Attempt to open one TCP connection from an address of this namespace. The opener closes it, which also ends a connection. */
export class TcpAttempt {
  readonly #fd: OwnedFd;
  readonly #known: ConnectOutcome | undefined;

  private constructor(fd: OwnedFd, known: ConnectOutcome | undefined) {
    this.#fd = fd;
    this.#known = known;
  }

  /** @throws SeineError `REFUSED` if the namespace does not have the address `from` */
  static open({ from, to, port }: TcpEnds): TcpAttempt {
    const fd = socket(familyNumber[from.family], SOCK_STREAM | SOCK_NONBLOCK, 0, 'TCP socket');
    try {
      bind(fd.number, internetAddress(from), from.text);
      return new TcpAttempt(fd, begun(fd, to, port));
    } catch (thrown) {
      fd.close();
      throw thrown;
    }
  }

  close(): void {
    this.#fd.close();
  }

  /** Waits for the outcome, at most for this time. @throws SeineError `CANCELLED` if the signal is aborted first */
  async outcome(timeoutMs: number, signal: AbortSignal): Promise<ConnectOutcome> {
    if (this.#known) return this.#known;
    const { promise, resolve, reject } = Promise.withResolvers<ConnectOutcome>();
    const aborted = (): void => reject(new SeineError('CANCELLED', 'the caller stopped waiting', { cause: signal.reason }));
    const watch = new Watch(this.#fd.number, 'writable', () => resolve(this.#error()));
    const timer = setTimeout(() => resolve('timed out'), timeoutMs);
    signal.addEventListener('abort', aborted, { once: true });
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', aborted);
      watch.close();
    }
  }

  #error(): ConnectOutcome {
    const bytes = getSocketOption(this.#fd.number, SOL_SOCKET, SO_ERROR, 4);
    const number = new DataView(bytes.buffer, bytes.byteOffset).getInt32(0, littleEndian);
    return outcomes[number] ?? 'no route';
  }
}

/** @returns the outcome, if it is known at once */
function begun(fd: OwnedFd, to: Ip, port: number): ConnectOutcome | undefined {
  try {
    return connect(fd.number, internetAddress(to, port), to.text) === 'connected' ? 'connected' : undefined;
  } catch (thrown) {
    const known = immediate[errnoOf(thrown) ?? ''];
    if (known === undefined) throw thrown;
    return known;
  }
}
