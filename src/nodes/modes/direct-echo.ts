import { randomBytes } from 'node:crypto';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Cidr, Family, Ip } from '../../base/net/ip.ts';
import { type EchoEnds, echoRequest } from '../../dataplane/packet-io/echo-frame.ts';
import type { IfIndex } from '../../netlink/interface-name.ts';
import { EchoReplies } from '../../netlink/packets/echo-replies.ts';
import { sendFrame } from '../../netlink/packets/frame-sender.ts';

const TOKEN_BYTES = 16;
/** Identifier of the requests; tokens distinguish them. */
const IDENTIFIER = 0x5e1e;

/** Ends of a request, and the interface by which it is sent. */
export type DirectEchoEnds = EchoEnds & { readonly link: IfIndex };

/**
 * Sends ICMP echo requests as frames, so that no route is needed, or by the node's routes, and receives the replies on whatever way the peer
 * sends them. The opener closes it.
 */
export class DirectEcho {
  readonly #waiting = new Map<string, () => void>();
  readonly #sockets: Readonly<Record<Family, EchoReplies>>;

  /** @throws SeineError `REFUSED` without CAP_NET_RAW */
  constructor() {
    const open = (family: Family) => EchoReplies.open(family, (payload) => this.#received(payload));
    const ipv4 = open('ipv4');
    try {
      this.#sockets = { ipv4, ipv6: open('ipv6') };
    } catch (thrown) {
      ipv4.close();
      throw thrown;
    }
  }

  close(): void {
    for (const each of Object.values(this.#sockets)) each.close();
  }

  /**
   * Returns whether a reply to a frame arrives in time.
   *
   * @throws SeineError `REFUSED` if the interface cannot send
   */
  async ask(ends: DirectEchoEnds, patienceMs: number): Promise<boolean> {
    return await this.#ask(patienceMs, (token) => sendFrame(ends.link, echoRequest(ends, IDENTIFIER, token)));
  }

  /** Returns whether a reply to a request that is routed arrives in time; false also if it cannot be sent. */
  async askRouted(to: Ip, patienceMs: number): Promise<boolean> {
    try {
      return await this.#ask(patienceMs, (token) => this.#sockets[to.family].send(to, IDENTIFIER, token));
    } catch (thrown) {
      if (SeineError.from(thrown, `send an echo to ${to.text}`).code === 'INVARIANT') throw thrown;
      return false;
    }
  }

  async #ask(patienceMs: number, send: (token: Uint8Array) => void): Promise<boolean> {
    const token = randomBytes(TOKEN_BYTES);
    const key = token.toString('latin1');
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const timer = setTimeout(resolve, patienceMs, false);
    this.#waiting.set(key, () => resolve(true));
    try {
      send(token);
      return await promise;
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(key);
    }
  }

  #received(payload: Uint8Array): void {
    if (payload.length === TOKEN_BYTES) this.#waiting.get(Buffer.from(payload).toString('latin1'))?.();
  }
}

/** Path without a tunnel to be verified. */
export interface CandidatePath {
  readonly peer: string;
  readonly family: Family;
  /** Pod network of the peer, whose first address is its gateway. */
  readonly network: Cidr;
  readonly transport: Ip;
}
