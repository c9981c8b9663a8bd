import { createHash, randomBytes } from 'node:crypto';
import type { Socket as DatagramSocket } from 'node:dgram';
import type { Socket } from 'node:net';
import { z } from 'zod';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { parseIp } from '../../src/base/net/ip.ts';
import type { NetnsRef } from '../plan/names.ts';
import type { ResponderReply } from './responder-protocol.ts';
import { bindUdpIn, connectTcpIn } from './sockets.ts';

const answerBytesMax = 64 * 1024 * 1024;
const resendMs = 500;

/** Source and destination of a probe. */
export interface Probe {
  readonly from: NetnsRef;
  readonly protocol: 'tcp' | 'udp';
  readonly address: string;
  readonly port: number;
  readonly timeoutMs: number;
}

/** Result of a probe. Refused means that a reset or an ICMP port unreachable came back. */
export type Outcome =
  | { readonly is: 'OK'; readonly answer: ResponderReply; readonly ms: number }
  | { readonly is: 'REFUSED' | 'TIMEOUT'; readonly ms: number }
  | { readonly is: 'UNREACHABLE'; readonly errno: string; readonly ms: number };

const answer = z.looseObject({
  pod: z.string(),
  node: z.string(),
  protocol: z.enum(['tcp', 'udp']),
  client: z.string(),
  server: z.string(),
  received: z.number().optional(),
  sha256: z.string().optional(),
});

/** Requests a responder's identity. Real sockets, created in the namespace the probe starts from. */
export function ask(probe: Probe): Promise<Outcome> {
  return probe.protocol === 'tcp' ? overTcp(probe, Buffer.alloc(0)) : overUdp(probe, Buffer.from('who\n'));
}

/** Sends `size` random bytes to a responder, which returns their hash; any other hash is `UNREACHABLE`. */
export async function upload(probe: Probe, size: number): Promise<Outcome> {
  const payload = randomBytes(size);
  const outcome =
    probe.protocol === 'tcp' ? await overTcp(probe, Buffer.concat([Buffer.from('SINK\n'), payload])) : await overUdp(probe, payload);
  const intact = outcome.is !== 'OK' || outcome.answer.sha256 === createHash('sha256').update(payload).digest('hex');
  return intact ? outcome : { is: 'UNREACHABLE', errno: `damaged: ${outcome.answer.received} of ${size} bytes`, ms: outcome.ms };
}

/** Has a responder send `size` bytes over TCP. Returns the number received. */
export async function download(probe: Probe, size: number): Promise<number> {
  const signal = AbortSignal.timeout(probe.timeoutMs);
  const socket = await connectTcpIn(probe.from, probe.address, probe.port, signal);
  return (await converse(socket, Buffer.from(`SEND ${size}\n`), signal)).length;
}

function overTcp(probe: Probe, request: Buffer): Promise<Outcome> {
  return timed(probe, async (signal) => {
    const socket = await connectTcpIn(probe.from, probe.address, probe.port, signal);
    return parseAnswer(await converse(socket, request, signal));
  });
}

/** Sends all, then closes its side; resolves with all that came back. */
function converse(socket: Socket, request: Buffer, signal: AbortSignal): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const fail = (error: unknown) => {
      socket.destroy();
      reject(error);
    };
    const onAbort = () => fail(new SeineError('CANCELLED', 'no response in time'));
    signal.addEventListener('abort', onAbort);
    socket.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      size += chunk.length;
      if (size > answerBytesMax) fail(new SeineError('PROTOCOL', 'the response does not end'));
    });
    socket.once('error', fail);
    socket.once('end', () => resolve(Buffer.concat(chunks)));
    socket.once('close', () => signal.removeEventListener('abort', onAbort));
    if (signal.aborted) onAbort();
    else socket.end(request);
  });
}

/** A datagram may be lost, so it is retransmitted now and then, as by DNS clients. */
function overUdp(probe: Probe, request: Buffer): Promise<Outcome> {
  return timed(probe, async (signal) => {
    const socket = await bindUdpIn(probe.from, parseIp(probe.address).family === 'ipv4' ? '0.0.0.0' : '::', 0);
    try {
      return parseAnswer(await exchange(socket, probe, request, signal));
    } finally {
      socket.close();
    }
  });
}

function exchange(socket: DatagramSocket, { address, port }: Probe, request: Buffer, signal: AbortSignal): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const send = () => socket.send(request);
    const resend = setInterval(send, resendMs);
    const settle = (outcome: () => void) => {
      clearInterval(resend);
      signal.removeEventListener('abort', onAbort);
      outcome();
    };
    const onAbort = () => settle(() => reject(new SeineError('CANCELLED', 'no response in time')));
    signal.addEventListener('abort', onAbort);
    socket.once('message', (message) => settle(() => resolve(message)));
    socket.on('error', (error) => settle(() => reject(error)));
    socket.connect(port, address, (error?: Error) => {
      if (error) settle(() => reject(error));
      else send();
    });
  });
}

/** Turns the result of an attempt into an outcome. @throws errors that the client, not the network, caused */
async function timed(probe: Probe, attempt: (signal: AbortSignal) => Promise<ResponderReply>): Promise<Outcome> {
  const start = performance.now();
  const ms = () => Math.round(performance.now() - start);
  const timeout = AbortSignal.timeout(probe.timeoutMs);
  try {
    return { is: 'OK', answer: await attempt(timeout), ms: ms() };
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === 'ECONNREFUSED' || errno === 'ECONNRESET') return { is: 'REFUSED', ms: ms() };
    if (errno === 'ETIMEDOUT' || timeout.aborted) return { is: 'TIMEOUT', ms: ms() };
    if (errno === undefined) throw error;
    return { is: 'UNREACHABLE', errno, ms: ms() };
  }
}

function errnoOf(error: unknown): string | undefined {
  if (error instanceof SeineError) return typeof error.context['errno'] === 'string' ? error.context['errno'] : undefined;
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

function parseAnswer(bytes: Buffer): ResponderReply {
  try {
    const { received, sha256, ...rest } = answer.parse(JSON.parse(bytes.toString('utf8')));
    return { ...rest, ...(received !== undefined && { received }), ...(sha256 !== undefined && { sha256 }) };
  } catch (cause) {
    throw new SeineError('PROTOCOL', 'not the reply of a responder', { cause, context: { errno: 'EBADMSG' } });
  }
}
