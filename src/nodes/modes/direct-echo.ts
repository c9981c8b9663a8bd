import { randomBytes } from 'node:crypto';
import type { Family, Ip } from '../../base/net/ip.ts';
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
 * Sends ICMP echo requests as frames, so that no route is needed, and receives the replies on whatever way the peer sends them. The opener
 * closes it.
 */
export class DirectEcho {
  readonly #waiting = new Map<string, () => void>();
  readonly #replies: readonly EchoReplies[];

  /** @throws SeineError `REFUSED` without CAP_NET_RAW */
  constructor(families: readonly Family[]) {
    this.#replies = families.map((family) => EchoReplies.open(family, (payload) => this.#received(payload)));
  }

  close(): void {
    for (const each of this.#replies) each.close();
  }

  /**
   * Returns whether a reply arrives in time.
   *
   * @throws SeineError `REFUSED` if the interface cannot send
   */
  async ask(ends: DirectEchoEnds, patienceMs: number): Promise<boolean> {
    const token = randomBytes(TOKEN_BYTES);
    const key = token.toString('hex');
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const timer = setTimeout(() => resolve(false), patienceMs);
    this.#waiting.set(key, () => resolve(true));
    try {
      sendFrame(ends.link, echoRequest(ends, IDENTIFIER, token));
      return await promise;
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(key);
    }
  }

  #received(payload: Uint8Array): void {
    if (payload.length === TOKEN_BYTES) this.#waiting.get(Buffer.from(payload).toString('hex'))?.();
  }
}

/** Path without a tunnel to be verified. */
export interface CandidatePath {
  readonly peer: string;
  readonly family: Family;
  /** Gateway addresses of both nodes. */
  readonly from: Ip;
  readonly to: Ip;
  readonly transport: Ip;
}
