import { ByteWriter } from '../../base/bytes/bytes.ts';
import type { OpenFlowSession } from '../connection/session.ts';
import { decodeError, type ErrorMessage, refusal } from '../error-message.ts';
import { messageType, readHeader } from '../protocol.ts';
import { chunkBytes } from './bundle-run.ts';
import { RangeRun } from './range-run.ts';

/** Maximum number of refusals listed in an error of `apply`; all are counted. */
const maxRefusals = 100;

/**
 * Sends messages that have no answer of their own, each under its own transaction id, followed by a barrier.
 *
 * @throws SeineError see `OpenFlowConnection.apply`
 */
export async function runApply(session: OpenFlowSession, messages: readonly Uint8Array[], signal: AbortSignal): Promise<void> {
  const refused: { readonly index: number; readonly error: ErrorMessage }[] = [];
  let refusals = 0;
  let answered = false;
  const run = new RangeRun(session, 'apply', messages.length + 1, (message) => {
    const { type, xid } = readHeader(message);
    const index = xid - run.firstXid;
    answered ||= index === messages.length;
    if (type === messageType.error && ++refusals <= maxRefusals) refused.push({ index, error: decodeError(message) });
    return answered ? 'done' : 'more';
  });
  try {
    await sendAll(session, run, messages, signal);
    session.writeBarrier(run.firstXid + messages.length);
    await run.until(() => answered, signal);
  } finally {
    run.end();
  }
  const [first] = refused;
  if (first !== undefined)
    throw refusal(first.error, 'apply', {
      index: first.index,
      refusals,
      refused: refused.map(({ index, error }) => ({ index, error: error.name })),
    });
}

/** Sends in chunks, each as soon as the window has room for it. */
async function sendAll(session: OpenFlowSession, run: RangeRun, messages: readonly Uint8Array[], signal: AbortSignal): Promise<void> {
  let w = new ByteWriter(1024);
  for (let index = 0; index < messages.length; index++) {
    const message = messages[index];
    if (message === undefined) continue;
    const start = w.length;
    w.raw(message).patchU32(start + 4, run.firstXid + index);
    if (w.length < chunkBytes - 0xffff && index < messages.length - 1) continue;
    const bytes = w.written();
    // Synchronously if there is room: messages that the caller sends later must follow it.
    if (signal.aborted || !session.hasRoom(bytes.length)) await run.room(bytes.length, signal);
    run.sent = true;
    session.write(bytes);
    w = new ByteWriter(chunkBytes);
  }
}
