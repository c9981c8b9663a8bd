import { createHash, type Hash } from 'node:crypto';

/** Identity of a responder. */
export interface Identity {
  /** `namespace/name`. */
  readonly pod: string;
  readonly node: string;
}

/** Both ends of one exchange, `address:port`, as the server sees them. */
interface Exchange {
  readonly protocol: 'tcp' | 'udp';
  readonly client: string;
  readonly server: string;
}

/** Answer of a responder: one line of JSON. */
export interface ResponderReply extends Identity, Exchange {
  /** Size in bytes of the request's body, and its SHA-256, if there was one. */
  readonly received?: number;
  readonly sha256?: string;
}

function answerLine(answer: ResponderReply): string {
  return `${JSON.stringify(answer)}\n`;
}

export function endpoint(address: string | undefined, port: number | undefined): string {
  const plain = (address ?? '').replace(/^::ffff:(?=\d+\.)/, '');
  return plain.includes(':') ? `[${plain}]:${port}` : `${plain}:${port}`;
}

/** Answer to a datagram: its content, padded to its size, so that large ones are tested in both directions. */
export function answerDatagram(identity: Identity, exchange: Exchange, request: Uint8Array): Buffer {
  const sha256 = createHash('sha256').update(request).digest('hex');
  return Buffer.from(answerLine({ ...identity, ...exchange, received: request.length, sha256 }).padStart(request.length, ' '));
}

/** Maximum size that `SEND` accepts. */
const sendBytesMax = 64 * 1024 * 1024;
const lineBytesMax = 64 * 1024;

export interface ReplyBytes {
  readonly text: string;
  /** Bytes of filler before the text. */
  readonly filler: number;
  readonly close: boolean;
}

/**
 * The protocol of one TCP connection, without its socket.
 *
 * - `GET … HTTP/1.x` is answered as HTTP, then the connection is closed
 * - `SEND n` is answered with n bytes, then closed
 * - `SINK` reads everything until the client closes its side, then returns the size and the hash
 * - any other line is answered with one line that names both ends; so is a close without a line
 */
export class ResponderProtocol {
  readonly #identity: Identity;
  readonly #exchange: Exchange;
  #pending = Buffer.alloc(0);
  #sink: { hash: Hash; received: number } | undefined;
  #http = false;
  #answered = false;

  constructor(identity: Identity, exchange: Exchange) {
    this.#identity = identity;
    this.#exchange = exchange;
  }

  /** Replies to the received bytes. */
  push(chunk: Uint8Array): ReplyBytes[] {
    if (this.#sink) return this.#swallow(chunk);
    this.#pending = Buffer.concat([this.#pending, chunk]);
    const replies: ReplyBytes[] = [];
    for (let end = this.#pending.indexOf(10); end >= 0; end = this.#pending.indexOf(10)) {
      const line = this.#pending.subarray(0, end).toString('latin1').trimEnd();
      this.#pending = this.#pending.subarray(end + 1);
      replies.push(...this.#line(line));
      if (this.#sink) return [...replies, ...this.#swallow(this.#pending)];
    }
    return this.#pending.length > lineBytesMax ? [...replies, { text: '', filler: 0, close: true }] : replies;
  }

  /** Replies after the client closed its side. */
  end(): ReplyBytes[] {
    if (this.#sink) {
      const { hash, received } = this.#sink;
      return [this.#say({ received, sha256: hash.digest('hex') }, 'close')];
    }
    return this.#answered ? [{ text: '', filler: 0, close: true }] : [this.#say({}, 'close')];
  }

  #line(line: string): ReplyBytes[] {
    if (this.#http) return line === '' ? [this.#httpReply()] : [];
    if (/^[A-Z]+ \S+ HTTP\/1\.\d$/.test(line)) {
      this.#http = true;
      return [];
    }
    if (line === 'SINK') {
      this.#sink = { hash: createHash('sha256'), received: 0 };
      return [];
    }
    const [, size] = /^SEND (\d{1,9})$/.exec(line) ?? [];
    this.#answered = true;
    if (size !== undefined) return [{ text: '', filler: Math.min(Number(size), sendBytesMax), close: true }];
    return [this.#say({}, 'keep')];
  }

  #swallow(chunk: Uint8Array): ReplyBytes[] {
    if (this.#sink) {
      this.#sink.hash.update(chunk);
      this.#sink.received += chunk.length;
    }
    return [];
  }

  #httpReply(): ReplyBytes {
    const body = answerLine({ ...this.#identity, ...this.#exchange });
    const head = ['HTTP/1.1 200 OK', 'Content-Type: application/json', `Content-Length: ${Buffer.byteLength(body)}`, 'Connection: close'];
    return { text: `${head.join('\r\n')}\r\n\r\n${body}`, filler: 0, close: true };
  }

  #say(extra: Pick<ResponderReply, 'received' | 'sha256'>, then: 'keep' | 'close'): ReplyBytes {
    this.#answered = true;
    return { text: answerLine({ ...this.#identity, ...this.#exchange, ...extra }), filler: 0, close: then === 'close' };
  }
}
