import { SeineError } from '../base/errors/seine-error.ts';
import type { Json } from './json.ts';
import { isObject, readServerError } from './json-rpc.ts';

/**
 * Sends one transaction to the server. Resolves with its raw `result` (RFC 7047 section 4.1.3).
 *
 * @throws SeineError `REFUSED` if the server answered with an error instead, `UNAVAILABLE` if the outcome is unknown.
 */
type SendTransaction = (operations: readonly Json[]) => Promise<unknown>;

interface Request {
  readonly operations: readonly Json[];
  /** Set once it is sent; cancelling it then leaves its outcome unknown. */
  sent: boolean;
  resolve(results: readonly unknown[]): void;
  reject(error: unknown): void;
}

/** Limits of one joint transaction, and of the queue while there is no connection. */
const maxJointOperations = 1_000;
const maxQueued = 10_000;

export interface BatchCounters {
  /** Transactions sent, joint or alone. */
  transactions: number;
  /** Number of callers. */
  requests: number;
  /** Joint transactions that were refused and then sent again one by one. */
  split: number;
}

/**
 * Sends the transactions of several callers of the same turn of the event loop, or during a running transaction, as one transaction. For
 * every transaction `ovs-vswitchd` processes its whole configuration, so fewer are much cheaper.
 *
 * Callers do not share failures: if the joint transaction is refused, the part of each caller is tried alone, in the order of arrival. They
 * do share an unknown outcome, which is true for each of them.
 */
export class Batcher {
  readonly counters: BatchCounters = { transactions: 0, requests: 0, split: 0 };
  readonly #queue = new Set<Request>();
  #send: SendTransaction | undefined;
  #underWay = false;
  #scheduled = false;

  /** Sends the queued transactions over a new connection. */
  connect(send: SendTransaction): void {
    this.#send = send;
    this.#schedule();
  }

  /** Called when the connection is lost. The sender fails the sent transactions; queued ones wait. */
  disconnect(): void {
    this.#send = undefined;
  }

  /**
   * Executes operations, and resolves with one result for each.
   *
   * Waits for a connection until the signal is aborted, because the outcome is certain before sending.
   *
   * @throws SeineError `REFUSED` with the server's error, the operation's index and the operation in `context`; `UNAVAILABLE` or
   *   `CANCELLED`, with `context.sent` set if the server may have acted.
   */
  submit(operations: readonly Json[], signal: AbortSignal): Promise<readonly unknown[]> {
    if (signal.aborted) return Promise.reject(cancelled(signal, false));
    if (this.#queue.size >= maxQueued) {
      return Promise.reject(
        new SeineError('UNAVAILABLE', 'ovsdb transact: queue is full', { context: { sent: false, queued: this.#queue.size } }),
      );
    }
    this.counters.requests += 1;
    return new Promise((resolve, reject) => {
      const giveUp = () => {
        this.#queue.delete(request);
        reject(cancelled(signal, request.sent));
      };
      const request: Request = {
        operations,
        sent: false,
        resolve(results) {
          signal.removeEventListener('abort', giveUp);
          resolve(results);
        },
        reject(error) {
          signal.removeEventListener('abort', giveUp);
          reject(error);
        },
      };
      signal.addEventListener('abort', giveUp, { once: true });
      this.#queue.add(request);
      this.#schedule();
    });
  }

  /** Waits for the end of the event loop's turn, so that all requests of that turn are sent together. */
  #schedule(): void {
    if (this.#scheduled || this.#underWay || this.#send === undefined || this.#queue.size === 0) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      if (this.#send !== undefined && this.#queue.size > 0) void this.#work(this.#send);
    });
  }

  async #work(send: SendTransaction): Promise<void> {
    this.#underWay = true;
    await this.#carryOut(this.#takeBatch(), send);
    this.#underWay = false;
    this.#schedule();
  }

  #takeBatch(): Request[] {
    const batch: Request[] = [];
    let operations = 0;
    for (const request of this.#queue) {
      operations += request.operations.length;
      if (batch.length > 0 && operations > maxJointOperations) break;
      request.sent = true;
      batch.push(request);
      this.#queue.delete(request);
    }
    return batch;
  }

  /** Never rejects: failures are reported to the callers. */
  async #carryOut(batch: readonly Request[], send: SendTransaction): Promise<void> {
    const outcome = await this.#attempt(batch, send);
    if (outcome === undefined) return;
    if (outcome.code !== 'REFUSED' || batch.length === 1) {
      for (const request of batch) request.reject(outcome);
      return;
    }
    this.counters.split += 1;
    await Promise.all(batch.map((request) => this.#carryOut([request], send)));
  }

  /** Sends all operations as one transaction. Returns the error, or nothing once all have their results. */
  async #attempt(batch: readonly Request[], send: SendTransaction): Promise<SeineError | undefined> {
    const operations = batch.flatMap((request) => request.operations);
    this.counters.transactions += 1;
    try {
      const results = readResults(await send(operations), operations);
      let from = 0;
      for (const request of batch) {
        request.resolve(results.slice(from, from + request.operations.length));
        from += request.operations.length;
      }
      return undefined;
    } catch (thrown) {
      return SeineError.from(thrown, 'ovsdb transact');
    }
  }
}

/**
 * Reads the results of a transaction, one for each operation.
 *
 * A refused one has the error at the operation that failed and `null` after it, or, if the commit failed, one element more than there are
 * operations.
 *
 * @throws SeineError `REFUSED` if there is an error among them; `PROTOCOL` if there are too few.
 */
export function readResults(result: unknown, operations: readonly Json[]): readonly unknown[] {
  if (!Array.isArray(result)) throw new SeineError('PROTOCOL', 'OVSDB: result of a transaction is not an array');
  const results: readonly unknown[] = result;
  const failed = results.findIndex((entry) => isObject(entry) && entry['error'] !== undefined && entry['error'] !== null);
  if (failed >= 0) throw refusal(results[failed], failed, operations);
  if (results.length < operations.length) throw new SeineError('PROTOCOL', 'OVSDB: fewer results than operations');
  return results;
}

function refusal(entry: unknown, index: number, operations: readonly Json[]): SeineError {
  const { error, details } = readServerError(entry);
  const operation = operations[index];
  const at = operation === undefined ? 'commit' : `operation ${index}`;
  const reported = details === '' ? error : `${error}: ${details}`;
  return new SeineError('REFUSED', `ovsdb transact, ${at}: ${reported}`, { context: { error, details, index, operation } });
}

function cancelled(signal: AbortSignal, sent: boolean): SeineError {
  return new SeineError('CANCELLED', 'ovsdb transact: no longer waited for', { context: { sent }, cause: signal.reason });
}
