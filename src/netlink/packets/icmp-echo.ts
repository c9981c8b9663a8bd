import { randomBytes } from 'node:crypto';
import { ByteWriter } from '../../base/bytes/bytes.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { internetChecksum } from '../../base/net/internet-checksum.ts';
import type { Family, Ip } from '../../base/net/ip.ts';
import { errnoOf } from '../errno.ts';
import { internetAddress, SOCK_NONBLOCK, SOCK_RAW } from '../sockets/socket-address.ts';
import { bind, connect, type OwnedFd, receiveStart, send, setSocketOption, socket, Watch } from '../sys.ts';

/** Do not fragment, and ignore the learned path MTU: the packet is sent whole or not at all. `linux/in.h`, `linux/in6.h` */
const PMTUDISC_PROBE = 3;
/** Length of the header of ICMP echo (RFC 792, 4443): u8 type · u8 code · u16 checksum · u16 identifier · u16 sequence */
const ECHO_HEADER = 8;
const TOKEN_BYTES = 16;
/** Number of bytes of a reply that are read: up to its token. */
const REPLY_BYTES = 20 + ECHO_HEADER + TOKEN_BYTES;

interface EchoProtocol {
  readonly domain: number;
  readonly protocol: number;
  readonly ipHeader: number;
  /** Number of bytes received before the ICMP message: raw(7) includes the IPv4 header, ipv6(7) does not. */
  readonly leads: number;
  readonly request: number;
  readonly reply: number;
  /** Level and option of *_MTU_DISCOVER. */
  readonly mtuDiscover: readonly [level: number, option: number];
}

const echoProtocols: Readonly<Record<Family, EchoProtocol>> = {
  ipv4: { domain: 2, protocol: 1, ipHeader: 20, leads: 20, request: 8, reply: 0, mtuDiscover: [0, 10] },
  ipv6: { domain: 10, protocol: 58, ipHeader: 40, leads: 0, request: 128, reply: 129, mtuDiscover: [41, 23] },
};

/** Outcome of one echo request. `tooLong`: this node does not send packets of that size to the address. */
export type EchoOutcome = 'answered' | 'silent' | 'tooLong' | 'noRoute';

const noRouteErrnos = ['ENETUNREACH', 'EHOSTUNREACH', 'EADDRNOTAVAIL', 'EACCES', 'ENETDOWN'];

/**
 * Sends ICMP echo requests of exact sizes to one address, never fragmented. The peer's kernel answers.
 *
 * The opener closes it. One request at a time.
 */
export class EchoSocket {
  readonly #fd: OwnedFd;
  readonly #protocol: EchoProtocol;
  readonly #watch: Watch;
  readonly #buffer = Buffer.alloc(REPLY_BYTES);
  readonly #identifier = randomBytes(2).readUInt16BE();
  #sequence = 0;
  #wanted: { readonly token: Buffer; readonly came: () => void } | undefined;

  /** @throws SeineError `REFUSED` without CAP_NET_RAW, without such an address here, or without a route, by errno */
  static open({ from, to }: { readonly from: Ip; readonly to: Ip }): EchoSocket {
    const flavour = echoProtocols[from.family];
    if (from.family !== to.family) throw new SeineError('INVARIANT', `${from.text} and ${to.text} are of two families`);
    const fd = socket(flavour.domain, SOCK_RAW | SOCK_NONBLOCK, flavour.protocol, 'raw ICMP socket');
    try {
      const [level, option] = flavour.mtuDiscover;
      setSocketOption(fd.number, level, option, PMTUDISC_PROBE);
      bind(fd.number, internetAddress(from), from.text);
      connect(fd.number, internetAddress(to), to.text);
      return new EchoSocket(fd, flavour);
    } catch (thrown) {
      fd.close();
      throw thrown;
    }
  }

  private constructor(fd: OwnedFd, flavour: EchoProtocol) {
    this.#fd = fd;
    this.#protocol = flavour;
    this.#watch = new Watch(fd.number, 'readable', () => this.#drain());
  }

  close(): void {
    this.#watch.close();
    this.#fd.close();
  }

  /**
   * @param bytes size of the whole IP packet, from 68 up
   * @throws SeineError `CANCELLED` if `signal` is aborted first
   */
  async ask(bytes: number, patienceMs: number, signal: AbortSignal): Promise<EchoOutcome> {
    signal.throwIfAborted();
    const token = randomBytes(TOKEN_BYTES);
    const { promise, resolve, reject } = Promise.withResolvers<EchoOutcome>();
    const onAbort = (): void => reject(new SeineError('CANCELLED', 'the caller stopped waiting', { cause: signal.reason }));
    const timer = setTimeout(() => resolve('silent'), patienceMs);
    signal.addEventListener('abort', onAbort, { once: true });
    this.#wanted = { token, came: () => resolve('answered') };
    try {
      send(this.#fd.number, this.#request(bytes, token), 'echo request');
      return await promise;
    } catch (thrown) {
      const errno = errnoOf(thrown);
      if (errno === 'EMSGSIZE') return 'tooLong';
      if (errno === 'ENOBUFS' || errno === 'EPERM') return 'silent'; // the device, or nftables of this node, dropped it at once
      if (errno !== undefined && noRouteErrnos.includes(errno)) return 'noRoute';
      throw thrown;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
      this.#wanted = undefined;
    }
  }

  #request(bytes: number, token: Uint8Array): Uint8Array {
    const { ipHeader, request, protocol } = this.#protocol;
    const padding = bytes - ipHeader - ECHO_HEADER - TOKEN_BYTES;
    if (padding < 0) throw new SeineError('INVARIANT', `no echo request has ${bytes} bytes`);
    this.#sequence = (this.#sequence + 1) & 0xffff;
    const message = new ByteWriter()
      .u8(request)
      .u8(0)
      .u16(0)
      .u16(this.#identifier)
      .u16(this.#sequence)
      .raw(token)
      .raw(new Uint8Array(padding))
      .finish();
    // The kernel fills in the checksum of ICMPv6 (RFC 3542 §3.1), which covers addresses.
    return protocol === echoProtocols.ipv6.protocol ? message : summed(message);
  }

  /** Errors of the socket are ICMP errors for the request: there will be no reply, and no other information. */
  #drain(): void {
    for (;;) {
      let size: number | 'empty';
      try {
        size = receiveStart(this.#fd.number, this.#buffer, 'the raw ICMP socket');
      } catch {
        return;
      }
      if (size === 'empty') return;
      const { leads, reply } = this.#protocol;
      const tokenAt = leads + ECHO_HEADER;
      const isReply = size >= tokenAt + TOKEN_BYTES && this.#buffer[leads] === reply;
      const wanted = this.#wanted;
      if (isReply && wanted && this.#buffer.subarray(tokenAt, tokenAt + TOKEN_BYTES).equals(wanted.token)) wanted.came();
    }
  }
}

/** Returns the message with its checksum in bytes 2 and 3, which must be zero. */
function summed(message: Uint8Array): Uint8Array {
  const done = Uint8Array.from(message);
  new DataView(done.buffer).setUint16(2, internetChecksum(message));
  return done;
}
