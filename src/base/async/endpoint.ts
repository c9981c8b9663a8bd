import { connect as connectPlain, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { SeineError } from '../errors/seine-error.ts';

/**
 * Address of a stream peer in the notation of Open vSwitch: `unix:PATH`, `tcp:HOST:PORT` or `ssl:HOST:PORT`, with IPv6 hosts in brackets.
 */
export type SocketEndpoint =
  | { readonly kind: 'unix'; readonly path: string }
  | { readonly kind: 'tcp' | 'ssl'; readonly host: string; readonly port: number };

/** Credentials for both sides of an `ssl:` stream, as PEM text. Source: ovsdb-server(1) "SSL/TLS". */
export interface TlsCredentials {
  readonly privateKey: string;
  readonly certificate: string;
  /** Certificate of the CA that signed the peer's certificate. */
  readonly caCertificate: string;
}

/** Maximum length of a socket path: `sun_path` of unix(7) has 108 bytes with its final zero. Node truncates a longer path silently. */
const maxUnixPathBytes = 107;

/** Parses an endpoint. @throws SeineError `INVALID_INPUT` if the text is not an endpoint */
export function parseEndpoint(text: string): SocketEndpoint {
  if (text.startsWith('unix:')) return parseUnix(text.slice('unix:'.length));
  const inet = /^(tcp|ssl):(?:\[([0-9a-fA-F:.]+)\]|([^\s:[\]]+)):(\d{1,5})$/.exec(text);
  const [, kind, bracketed, plain, portText] = inet ?? [];
  const host = bracketed ?? plain;
  const port = Number(portText);
  if (host === undefined || port < 1 || port > 65535) {
    throw new SeineError('INVALID_INPUT', `endpoint ${JSON.stringify(text)} is neither unix:PATH nor tcp:HOST:PORT nor ssl:HOST:PORT`);
  }
  return { kind: kind === 'ssl' ? 'ssl' : 'tcp', host, port };
}

/** Amount that a socket reads ahead (bytes): as much as Node does, or nothing while it is paused. */
interface ReadAhead {
  readonly readableHighWaterMark?: number;
}

/** Makes a paused socket leave bytes where they are, so that the process does not wake for them. */
export const noReadAhead: ReadAhead = { readableHighWaterMark: 1 };

/**
 * Begins to connect; the socket's events report the outcome.
 *
 * @throws SeineError `INVALID_INPUT` for an `ssl:` endpoint without credentials; OpenSSL's error for unreadable credentials
 */
export function dialEndpoint(endpoint: SocketEndpoint, credentials?: TlsCredentials, ahead: ReadAhead = {}): Socket {
  if (endpoint.kind === 'unix') return connectPlain({ path: endpoint.path, ...ahead });
  const { host, port } = endpoint;
  if (endpoint.kind === 'tcp') return connectPlain({ host, port, noDelay: true, ...ahead });
  if (credentials === undefined) throw new SeineError('INVALID_INPUT', `endpoint ssl:${host}:${port} needs a key and certificates`);
  const { privateKey, certificate, caCertificate } = credentials;
  const socket = connectTls({ host, port, key: privateKey, cert: certificate, ca: caCertificate, checkServerIdentity: anyName });
  return socket.setNoDelay(true);
}

/** Accepts any host name: Open vSwitch trusts every certificate signed by the CA, and these name no host. Source: ovs-pki(8). */
function anyName(): undefined {
  return undefined;
}

function parseUnix(path: string): SocketEndpoint {
  if (path === '' || path.includes('\0')) throw new SeineError('INVALID_INPUT', `endpoint unix:${JSON.stringify(path)} names no path`);
  if (Buffer.byteLength(path) > maxUnixPathBytes) {
    throw new SeineError('INVALID_INPUT', `socket path of ${Buffer.byteLength(path)} bytes, at most ${maxUnixPathBytes} allowed`);
  }
  return { kind: 'unix', path };
}
