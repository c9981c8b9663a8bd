import { SeineError } from '../../src/base/errors/seine-error.ts';
import { visitFlowEntries } from '../../src/openflow/flows/flow-stats.ts';
import { decodeInstructions } from '../../src/openflow/flows/instructions.ts';
import { decodeMatch } from '../../src/openflow/match/match.ts';
import { decodeMessage, encodeMessage, type Message } from '../../src/openflow/message.ts';
import { decodeMultipart, multipartType } from '../../src/openflow/multipart.ts';
import { isVersion, messageType, OPENFLOW_13, OPENFLOW_15, readHeader, type Version } from '../../src/openflow/protocol.ts';
import { printMessage } from '../../src/openflow/text/message-text.ts';
import { decodeUnsolicited } from '../../src/openflow/unsolicited.ts';

/** Maximum time of a message (ms). */
const maxMs = 50;

/** Result for a message: all of it decoded, parts kept as bytes, or rejected, with the reason. */
export type Verdict =
  | { readonly kind: 'read'; readonly message: Message; readonly whole: boolean }
  | { readonly kind: 'refused'; readonly reason: string };

/**
 * Reads a message in every way.
 *
 * @throws Error if anything but a `PROTOCOL` error was thrown, it took too long, or printing or encoding the result crashes
 */
export function survive(bytes: Uint8Array): Verdict {
  const startMs = performance.now();
  const verdict = verdictOf(bytes);
  if (performance.now() - startMs <= maxMs) return verdict;
  // On a busy host anything takes long; CPU time counts then.
  const usedMs = leastCpuMs(() => verdictOf(bytes));
  if (usedMs > maxMs) throw new Error(`took ${usedMs} ms of CPU time, more than ${maxMs} ms`);
  return verdict;
}

/** Returns the CPU time of this thread for work (ms), the least of some attempts: garbage collection may take more of one than the work. */
export function leastCpuMs(work: () => unknown, attempts = 5): number {
  const used = Array.from({ length: attempts }, () => {
    const before = process.threadCpuUsage();
    work();
    const { user, system } = process.threadCpuUsage(before);
    return (user + system) / 1000;
  });
  return Math.min(...used);
}

function verdictOf(bytes: Uint8Array): Verdict {
  const verdict = read(bytes);
  tolerate('PROTOCOL', () => decodeUnsolicited(bytes));
  tolerate('PROTOCOL', () => readEntries(bytes));
  return verdict;
}

function read(bytes: Uint8Array): Verdict {
  let message: Message;
  try {
    message = decodeMessage(bytes);
    printMessage(message); // reads matches and instructions, which are bytes in some messages
  } catch (thrown) {
    if (thrown instanceof SeineError && thrown.code === 'PROTOCOL') return { kind: 'refused', reason: thrown.message };
    throw thrown;
  }
  // A switch may send more than we may: one of its numbers may exceed our field.
  const encoded = tolerate('INVARIANT', () => encodeMessage(message));
  return {
    kind: 'read',
    message,
    whole:
      encoded !== undefined &&
      Buffer.compare(encoded, bytes) === 0 &&
      !holdsUnknown(message, isVersion(message.version) ? message.version : OPENFLOW_15),
  };
}

/** Flows are also read by a separate decoder. */
function readEntries(bytes: Uint8Array): void {
  const { version, type } = readHeader(bytes);
  if (type !== messageType.multipartReply || !isVersion(version)) return;
  const part = decodeMultipart(bytes);
  if (part.type !== multipartType.flowDesc) return;
  let end = 0;
  for (const each of [version, version === OPENFLOW_13 ? OPENFLOW_15 : OPENFLOW_13] as const)
    tolerate('PROTOCOL', () => visitFlowEntries(part.body, ({ match, instructions }) => (end += match.length + instructions.length), each));
  if (end > 2 * bytes.length) throw new Error(`flows of ${end} bytes in a message of ${bytes.length}`);
}

function tolerate<T>(code: SeineError['code'], work: () => T): T | undefined {
  try {
    return work();
  } catch (thrown) {
    if (thrown instanceof SeineError && thrown.code === code) return undefined;
    throw thrown;
  }
}

/** Also in flows, whose matches and instructions are bytes in some messages. */
function holdsUnknown(value: unknown, version: Version): boolean {
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return false;
  if ('unknown' in value || ('kind' in value && value.kind === 'unknown')) return true;
  return Object.entries(value).some(([name, each]) =>
    holdsUnknown(each instanceof Uint8Array ? within(name, each, version) : each, version),
  );
}

function within(name: string, bytes: Uint8Array, version: Version): unknown {
  if (name === 'instructions') return tolerate('PROTOCOL', () => decodeInstructions(bytes, version));
  return name === 'match' ? tolerate('PROTOCOL', () => decodeMatch(bytes)) : undefined;
}
