import { connect as connectPlain, type Socket } from 'node:net';
import { SeineError } from '../errors/seine-error.ts';

/** Where a stream peer listens, as Open vSwitch writes it: `unix:PATH` or `tcp:HOST:PORT`, IPv6 hosts in brackets. */
export type Endpoint =
  | { readonly kind: 'unix'; readonly path: string }
  | { readonly kind: 'tcp'; readonly host: string; readonly port: number };

/** `sun_path` of unix(7) is 108 bytes with its final zero; Node cuts a longer path off silently. */
const maxUnixPathBytes = 107;

/** @throws SeineError `INVALID_INPUT` if the text is no endpoint. */
export function parseEndpoint(text: string): Endpoint {
  if (text.startsWith('unix:')) return parseUnix(text.slice('unix:'.length));
  const tcp = /^tcp:(?:\[([0-9a-fA-F:.]+)\]|([^\s:[\]]+)):(\d{1,5})$/.exec(text);
  const [, bracketed, plain, portText] = tcp ?? [];
  const host = bracketed ?? plain;
  const port = Number(portText);
  if (host === undefined || port < 1 || port > 65535) {
    throw new SeineError('INVALID_INPUT', `endpoint ${JSON.stringify(text)} is neither unix:PATH nor tcp:HOST:PORT`);
  }
  return { kind: 'tcp', host, port };
}

/** Begins to connect; the socket tells by its events how that went. */
export function dialEndpoint(endpoint: Endpoint): Socket {
  if (endpoint.kind === 'unix') return connectPlain({ path: endpoint.path });
  return connectPlain({ host: endpoint.host, port: endpoint.port, noDelay: true });
}

function parseUnix(path: string): Endpoint {
  if (path === '' || path.includes('\0')) throw new SeineError('INVALID_INPUT', `endpoint unix:${JSON.stringify(path)} names no path`);
  if (Buffer.byteLength(path) > maxUnixPathBytes) {
    throw new SeineError('INVALID_INPUT', `socket path of ${Buffer.byteLength(path)} bytes, at most ${maxUnixPathBytes} allowed`);
  }
  return { kind: 'unix', path };
}
