import type { Socket } from 'node:net';
import type { ConnectionLimit } from '../../base/async/connection-limit.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { formatError } from '../../cni/errors.ts';
import { toCniError } from '../../cni/from-seine-error.ts';
import { newestVersion } from '../../cni/versions.ts';
import { decodeRequest, encodeReply, requestBytesMax, type WireReply, type WireRequest } from '../../cni/wire.ts';

const headerBytes = 4;

interface RevocableReply {
  readonly reply: WireReply;
  readonly undo?: () => Promise<void>;
}

/** Handler that makes the replies. */
interface Answering {
  answer(request: WireRequest, signal: AbortSignal): Promise<RevocableReply>;
}

/**
 * Serves one connection: one frame in, one frame out. `limit` closes it if sending the request or reading the reply takes too long. While
 * the reply is being made, `signal` aborts when the plugin closes its end or its deadline passes.
 *
 * @returns once the reply is delivered or undone
 */
export async function serveConnection(socket: Socket, calls: Answering, limit: Pick<ConnectionLimit, 'requested'>): Promise<void> {
  const gone = new AbortController();
  let isServed = false;
  const onGone = () => {
    if (!isServed) gone.abort(new SeineError('CANCELLED', 'the plugin has closed the connection'));
  };
  socket.on('end', onGone).on('close', onGone).on('error', onGone);
  try {
    const frame = await readFrame(socket, gone.signal);
    let waitsFor: 'agent' | 'client' = 'agent';
    limit.requested(socket, () => waitsFor);
    const { reply, undo } = await decodeAndAnswer(frame, calls, gone);
    waitsFor = 'client';
    const delivered = !socket.destroyed && socket.writable && (await deliver(socket, encodeReply(reply)));
    if (!delivered) await undo?.();
  } finally {
    isServed = true; // from here on a closed connection is normal
    socket.destroy();
  }
}

async function decodeAndAnswer(frame: Buffer, calls: Answering, gone: AbortController): Promise<RevocableReply> {
  let request: WireRequest;
  try {
    request = decodeRequest(frame.toString('utf8'));
  } catch (thrown) {
    return { reply: { exit: 1, stdout: formatError(toCniError(thrown, 'request'), newestVersion) } };
  }
  const deadline = setTimeout(() => {
    gone.abort(new SeineError('CANCELLED', `not done within ${request.deadlineMs} ms`));
  }, request.deadlineMs);
  try {
    return await calls.answer(request, gone.signal);
  } finally {
    clearTimeout(deadline);
  }
}

/**
 * Reads one frame.
 *
 * @throws SeineError `PROTOCOL` for a frame that is too large or followed by more data; `CANCELLED` if either end closes the connection
 * before
 */
function readFrame(socket: Socket, gone: AbortSignal): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let length = 0;
    let wanted: number | undefined;
    gone.addEventListener('abort', () => reject(SeineError.from(gone.reason, 'request')), { once: true });
    socket.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      length += chunk.length;
      if (wanted === undefined && length >= headerBytes) wanted = headerBytes + Buffer.concat(chunks).readUInt32BE(0);
      if (wanted === undefined || (length < wanted && wanted <= headerBytes + requestBytesMax)) return;
      if (length === wanted) resolve(Buffer.concat(chunks).subarray(headerBytes));
      else {
        reject(new SeineError('PROTOCOL', `a request of ${wanted - headerBytes} bytes, ${length - headerBytes} received`));
        socket.destroy();
      }
    });
  });
}

/** Sends the reply; returns false if the peer disconnected before the kernel had taken all of it. */
function deliver(socket: Socket, text: string): Promise<boolean> {
  const body = Buffer.from(text);
  const header = Buffer.alloc(headerBytes);
  header.writeUInt32BE(body.length);
  return new Promise((resolve) => {
    socket.once('close', () => resolve(false));
    socket.write(Buffer.concat([header, body]), (error) => resolve(!error));
    socket.end();
  });
}
