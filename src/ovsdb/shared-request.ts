import { abortable } from '../base/async/abortable.ts';
import { dialEndpoint, parseEndpoint, type TlsCredentials } from '../base/async/endpoint.ts';
import { keepConnected } from '../base/async/keep-connected.ts';
import { localPolicy } from '../base/async/reconnect.ts';
import type { SeineError } from '../base/errors/seine-error.ts';
import { defaultSessionLimits, JsonRpcSession, type SessionLimits } from './session.ts';

export interface AskOnceOptions {
  /** `unix:PATH`, `tcp:HOST:PORT` or `ssl:HOST:PORT`. */
  readonly endpoint: string;
  readonly tls?: () => TlsCredentials;
  readonly limits?: SessionLimits;
}

/**
 * Connects, sends its requests, and disconnects: for facts that are needed before a client can be created, such as a server's databases and
 * their schemas.
 *
 * @throws SeineError `UNAVAILABLE` if there is no answer; `INVALID_INPUT` if the endpoint is invalid; `CANCELLED` if the signal is aborted
 *   first; and any error of `ask`
 */
export async function askOnce<T>(options: AskOnceOptions, ask: (session: JsonRpcSession) => Promise<T>, signal: AbortSignal): Promise<T> {
  const { tls, limits = defaultSessionLimits } = options;
  const endpoint = parseEndpoint(options.endpoint);
  const own = new AbortController();
  const answer = new Promise<T>((resolve, reject) => {
    void keepConnected(
      {
        peer: `ovsdb ${options.endpoint}`,
        dial: () => dialEndpoint(endpoint, endpoint.kind === 'ssl' ? tls?.() : undefined),
        policy: localPolicy,
        open(socket) {
          const session = new JsonRpcSession(socket, { notified: () => {}, closed: () => {} }, limits);
          ask(session).then(resolve, reject);
          return session;
        },
        failed: (cause: SeineError) => reject(cause),
      },
      AbortSignal.any([signal, own.signal]),
    );
  });
  try {
    return await abortable(answer, signal);
  } finally {
    own.abort();
  }
}
