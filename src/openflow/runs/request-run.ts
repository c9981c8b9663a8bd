import { SeineError } from '../../base/errors/seine-error.ts';
import { type Expectation, type OpenFlowSession, withXid } from '../connection/session.ts';
import { decodeError, refusal } from '../error-message.ts';
import { decodeMultipart } from '../multipart.ts';
import { messageType, readHeader } from '../protocol.ts';

/** Handler of the answers to one message. */
interface ReplyHandler {
  /** Reads the answers with the message's id, except errors. An error that it throws fails the exchange. */
  readonly answered: Expectation['answered'];
  readonly failed: (cause: SeineError) => void;
}

/**
 * Sends one message and waits for its answer.
 *
 * @throws SeineError see `OpenFlowConnection.request`
 */
export function runRequest(session: OpenFlowSession, message: Uint8Array, signal: AbortSignal): Promise<Uint8Array> {
  const wanted = answerType(message[1] ?? 0);
  return new Promise((resolve, failed) => {
    const answered = (answer: Uint8Array) => {
      const { type } = readHeader(answer);
      if (wanted !== undefined && type !== wanted)
        throw new SeineError('PROTOCOL', `a message of type ${type} answered one of type ${message[1]}`);
      resolve(answer);
      return 'done' as const;
    };
    exchange(session, message, { answered, failed }, signal);
  });
}

/**
 * Sends one multipart request and calls `visit` with the body of each part of the answer.
 *
 * @throws SeineError see `OpenFlowConnection.multipart`
 */
export function runMultipart(
  session: OpenFlowSession,
  message: Uint8Array,
  visit: (body: Uint8Array) => void,
  signal: AbortSignal,
): Promise<void> {
  const asked = decodeMultipart(message).type;
  return new Promise((resolve, failed) => {
    const answered = (answer: Uint8Array) => {
      if (readHeader(answer).type !== messageType.multipartReply) throw new SeineError('PROTOCOL', 'multipart request got another answer');
      const part = decodeMultipart(answer);
      if (part.type !== asked) throw new SeineError('PROTOCOL', `multipart request ${asked} got an answer of type ${part.type}`);
      visit(part.body);
      if (!part.last) return 'more';
      resolve();
      return 'done';
    };
    exchange(session, message, { answered, failed }, signal);
  });
}

function exchange(session: OpenFlowSession, message: Uint8Array, client: ReplyHandler, signal: AbortSignal): void {
  const xid = session.reserveXids(1);
  const cancel = () => {
    session.forget(expectation);
    client.failed(new SeineError('CANCELLED', 'OpenFlow request'));
  };
  const fail = (cause: SeineError) => {
    signal.removeEventListener('abort', cancel);
    client.failed(cause);
    return 'done' as const;
  };
  const expectation: Expectation = {
    firstXid: xid,
    count: 1,
    answered: (answer) => {
      if (readHeader(answer).type === messageType.error) return fail(refusal(decodeError(answer), 'OpenFlow request'));
      const state = answeredSafely(client, answer, fail);
      if (state === 'done') signal.removeEventListener('abort', cancel);
      return state;
    },
    lost: (cause) => void fail(new SeineError('UNAVAILABLE', 'OpenFlow request: connection lost', { cause })),
  };
  session.expect(expectation);
  signal.addEventListener('abort', cancel, { once: true });
  session.write(withXid(message, xid));
}

/** An error thrown by the reader of an answer fails its request; a malformed message also ends the stream. */
function answeredSafely(client: ReplyHandler, answer: Uint8Array, fail: (cause: SeineError) => 'done'): 'more' | 'done' {
  try {
    return client.answered(answer);
  } catch (thrown) {
    return fail(SeineError.from(thrown, 'reading an OpenFlow answer'));
  }
}

/** Types of replies are those of their requests plus one, except for the two of bundles and those of experimenters. */
const requestTypes: ReadonlySet<number> = new Set([
  messageType.featuresRequest,
  messageType.getConfigRequest,
  messageType.multipartRequest,
  messageType.barrierRequest,
  messageType.queueConfigRequest,
  messageType.roleRequest,
  messageType.getAsyncRequest,
]);

function answerType(type: number): number | undefined {
  return requestTypes.has(type) ? type + 1 : undefined;
}
