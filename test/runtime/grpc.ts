import { type ClientHttp2Session, connect } from 'node:http2';
import { createConnection } from 'node:net';
import { Received } from './protobuf.ts';

/** Of gRPC, in the order of their numbers. Source: grpc.io, "Status codes and their use in gRPC". */
const codes = [
  'OK',
  'CANCELLED',
  'UNKNOWN',
  'INVALID_ARGUMENT',
  'DEADLINE_EXCEEDED',
  'NOT_FOUND',
  'ALREADY_EXISTS',
  'PERMISSION_DENIED',
  'RESOURCE_EXHAUSTED',
  'FAILED_PRECONDITION',
  'ABORTED',
  'OUT_OF_RANGE',
  'UNIMPLEMENTED',
  'INTERNAL',
  'UNAVAILABLE',
  'DATA_LOSS',
  'UNAUTHENTICATED',
] as const;
export type GrpcCode = (typeof codes)[number];

const answerBytesMax = 16 * 1024 * 1024;

/** A call that the server refused, or that never reached it (`UNAVAILABLE`). */
export class GrpcError extends Error {
  readonly code: GrpcCode;

  constructor(code: GrpcCode, message: string) {
    super(`${code}: ${message}`);
    this.code = code;
  }
}

/** A gRPC server on a unix socket. Calls share one connection, which is made anew when it broke. */
export class GrpcChannel {
  readonly #socket: string;
  #session: ClientHttp2Session | undefined;

  constructor(socket: string) {
    this.#socket = socket;
  }

  /**
   * One request, one answer. Source: grpc.io, "gRPC over HTTP2": each message has a prefix of one octet (compressed or not)
   * and four of length; the outcome is in the trailers.
   *
   * @param method `package.Service/Method`
   * @throws GrpcError
   */
  async call(method: string, request: Uint8Array, signal: AbortSignal): Promise<Received> {
    const prefix = Buffer.alloc(5);
    prefix.writeUInt32BE(request.length, 1);
    const { body, status, said } = await this.#exchange(method, Buffer.concat([prefix, request]), signal);
    if (status !== 0) throw new GrpcError(codes[status] ?? 'UNKNOWN', `${method}: ${said}`);
    if (body.length < 5 || body.length !== 5 + body.readUInt32BE(1)) throw new GrpcError('INTERNAL', `${method}: half an answer`);
    return new Received(body.subarray(5));
  }

  close(): void {
    this.#session?.destroy();
    this.#session = undefined;
  }

  #exchange(method: string, body: Uint8Array, signal: AbortSignal): Promise<{ body: Buffer; status: number; said: string }> {
    return new Promise((resolve, reject) => {
      const lost = (cause: Error) => reject(new GrpcError('UNAVAILABLE', `${method}: ${cause.message}`));
      const session = this.#open(lost);
      const headers = { ':method': 'POST', ':path': `/${method}`, 'content-type': 'application/grpc', te: 'trailers' };
      const stream = session.request(headers, { signal });
      const chunks: Buffer[] = [];
      let size = 0;
      let outcome = { status: Number.NaN, said: '' };
      const read = (from: Record<string, string | string[] | undefined>) => {
        if (from['grpc-status'] === undefined) return;
        outcome = { status: Number(from['grpc-status']), said: decodeURIComponent(String(from['grpc-message'] ?? '')) };
      };
      stream.on('response', read);
      stream.on('trailers', read);
      stream.on('data', (chunk: Buffer) => {
        size += chunk.length;
        chunks.push(chunk);
        if (size > answerBytesMax) stream.close();
      });
      stream.once('error', lost);
      stream.once('close', () =>
        Number.isNaN(outcome.status)
          ? lost(new Error('the connection ended before the answer'))
          : resolve({ body: Buffer.concat(chunks), ...outcome }),
      );
      stream.end(body);
    });
  }

  #open(lost: (cause: Error) => void): ClientHttp2Session {
    if (this.#session !== undefined && !this.#session.destroyed && !this.#session.closed) return this.#session;
    const session = connect('http://localhost', { createConnection: () => createConnection(this.#socket) });
    session.once('error', lost);
    this.#session = session;
    return session;
  }
}
