import { Client, credentials, type ServiceError, status } from '@grpc/grpc-js';
import protobuf from 'protobufjs';

/** Short reconnection intervals, for a runtime that tests restart. */
const channelOptions = {
  'grpc.max_receive_message_length': 16 * 1024 * 1024,
  'grpc.initial_reconnect_backoff_ms': 50,
  'grpc.max_reconnect_backoff_ms': 200,
};

/** A call that the server rejected, or that never reached it (`UNAVAILABLE`). */
export class GrpcError extends Error {
  /** The name of a status. Source: grpc.io, "Status codes and their use in gRPC". */
  readonly code: string;

  constructor(code: string, message: string) {
    super(`${code}: ${message}`);
    this.code = code;
  }
}

/** A gRPC client for a unix socket, with the services of a `.proto` file. */
export class GrpcChannel {
  readonly #address: string;
  #client: Client | undefined;
  readonly #services: protobuf.Root;

  /** @param definitions path of the `.proto` file */
  constructor(socket: string, definitions: string) {
    this.#address = `unix:${socket}`;
    this.#services = protobuf.loadSync(definitions);
    this.#services.resolveAll();
  }

  /**
   * One request, one answer: objects with the fields' names in camel case. The answer has every field, by proto3.
   *
   * @param service with its package
   * @throws GrpcError
   */
  call(service: string, method: string, request: object, signal: AbortSignal): Promise<unknown> {
    const { resolvedRequestType, resolvedResponseType } = this.#services.lookupService(service).methods[method] ?? {};
    if (!resolvedRequestType || !resolvedResponseType) throw new Error(`${service} has no method ${method}`);
    const encode = (from: object): Buffer => Buffer.from(resolvedRequestType.encode(resolvedRequestType.fromObject(from)).finish());
    const decode = (bytes: Buffer): unknown =>
      resolvedResponseType.toObject(resolvedResponseType.decode(bytes), { defaults: true, longs: Number, enums: String });
    return new Promise((resolve, reject) => {
      const path = `/${service}/${method}`;
      const answered = (error: ServiceError | null, answer?: unknown): void => {
        signal.removeEventListener('abort', cancel);
        if (error) reject(new GrpcError(status[error.code], `${path}: ${error.details}`));
        else resolve(answer);
      };
      this.#client ??= new Client(this.#address, credentials.createInsecure(), channelOptions);
      const call = this.#client.makeUnaryRequest(path, encode, decode, request, answered);
      const cancel = (): void => call.cancel();
      signal.addEventListener('abort', cancel, { once: true });
      if (signal.aborted) cancel();
    });
  }

  /** A later call connects again. */
  close(): void {
    this.#client?.close();
    this.#client = undefined;
  }
}
