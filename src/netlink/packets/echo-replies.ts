import { internetChecksum } from '../../base/net/internet-checksum.ts';
import type { Family, Ip } from '../../base/net/ip.ts';
import { internetAddress, SOCK_NONBLOCK, SOCK_RAW } from '../sockets/socket-address.ts';
import { littleEndian, type OwnedFd, receiveStart, sendTo, setSocketOption, socket, Watch } from '../sys.ts';

interface ReplyProtocol {
  readonly domain: number;
  readonly protocol: number;
  /** Number of bytes received before the ICMP message: raw(7) includes the IPv4 header, ipv6(7) does not. */
  readonly leads: number;
  readonly request: number;
  readonly reply: number;
  /** Level, option and value of the filter that passes echo replies only. */
  readonly filter: readonly [level: number, option: number, value: Uint8Array];
}

/** linux/icmp.h: a bit for each type that is blocked. */
const blockedTypes4 = Uint8Array.of(...word(~1 >>> 0));
/** RFC 3542 section 3.2, linux/icmpv6.h: the same in eight words; echo reply is type 129. */
const blockedTypes6 = Uint8Array.from(Array.from({ length: 8 }, (_, at) => word(at === 4 ? ~2 >>> 0 : 0xffff_ffff)).flat());

const protocols: Readonly<Record<Family, ReplyProtocol>> = {
  ipv4: { domain: 2, protocol: 1, leads: 20, request: 8, reply: 0, filter: [255, 1, blockedTypes4] },
  ipv6: { domain: 10, protocol: 58, leads: 0, request: 128, reply: 129, filter: [58, 1, blockedTypes6] },
};

/** Length of the header of ICMP echo (RFC 792, 4443). */
const ECHO_HEADER = 8;
/** Longer than any reply to requests of this agent. */
const REPLY_BYTES_MAX = 256;

/**
 * Sends ICMP echo requests by the node's routes, and receives replies to these and to any others, at any address and interface of this namespace, until it is closed.
 *
 * @throws SeineError `REFUSED` without CAP_NET_RAW
 */
export class EchoReplies {
  readonly #fd: OwnedFd;
  readonly #watch: Watch;
  readonly #buffer = Buffer.alloc(REPLY_BYTES_MAX);
  readonly #protocol: ReplyProtocol;
  readonly #received: (payload: Uint8Array) => void;

  /** @param received called with the payload of each reply, cut to its first bytes; it must not keep it, nor throw */
  static open(family: Family, received: (payload: Uint8Array) => void): EchoReplies {
    const of = protocols[family];
    const fd = socket(of.domain, SOCK_RAW | SOCK_NONBLOCK, of.protocol, 'raw ICMP socket');
    try {
      setSocketOption(fd.number, ...of.filter);
      return new EchoReplies(fd, of, received);
    } catch (thrown) {
      fd.close();
      throw thrown;
    }
  }

  private constructor(fd: OwnedFd, protocol: ReplyProtocol, received: (payload: Uint8Array) => void) {
    this.#fd = fd;
    this.#protocol = protocol;
    this.#received = received;
    this.#watch = new Watch(fd.number, 'readable', () => this.#drain());
  }

  /**
   * Sends a request to an address of this socket's family. The kernel selects route and source, and resolves the next hop.
   *
   * @throws SeineError with the errno of sendto(2), e.g. without a route
   */
  send(to: Ip, identifier: number, payload: Uint8Array): void {
    const message = Buffer.allocUnsafe(ECHO_HEADER + payload.length).fill(0, 0, ECHO_HEADER);
    message.writeUInt8(this.#protocol.request, 0);
    message.writeUInt16BE(identifier, 4);
    message.set(payload, ECHO_HEADER);
    // The kernel fills in the checksum of ICMPv6 (RFC 3542 section 3.1).
    if (to.family === 'ipv4') message.writeUInt16BE(internetChecksum(message), 2);
    sendTo(this.#fd.number, message, internetAddress(to), 'echo request');
  }

  close(): void {
    this.#watch.close();
    this.#fd.close();
  }

  #drain(): void {
    const { leads, reply } = this.#protocol;
    for (;;) {
      const size = this.#next();
      if (size === undefined) return;
      if (size > leads + ECHO_HEADER && this.#buffer[leads] === reply) this.#received(this.#buffer.subarray(leads + ECHO_HEADER, size));
    }
  }

  #next(): number | undefined {
    try {
      const size = receiveStart(this.#fd.number, this.#buffer, 'the raw ICMP socket');
      return size === 'empty' ? undefined : Math.min(size, this.#buffer.length);
    } catch {
      return undefined; // an ICMP error about another packet
    }
  }
}

function word(value: number): number[] {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value, littleEndian);
  return [...bytes];
}
