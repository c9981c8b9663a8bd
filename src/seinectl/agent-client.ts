import { type ClientRequest, type IncomingMessage, type RequestOptions, request } from 'node:http';
import { SeineError, withoutCode } from '../base/errors/seine-error.ts';

/** Time without any data after which an agent counts as unresponsive (ms). */
const SILENCE_MS = 15_000;
/** Maximum length of a line; an object of the API has at most 8 MiB. */
const LINE_CHARACTERS_MAX = 16 * 1024 * 1024;
const ANSWER_CHARACTERS_MAX = 400_000_000;
const ATTEMPTS_MAX = 3;

/** Answer of an agent to one request. */
interface AgentAnswer {
  readonly status: number;
  readonly body: string;
}

/** Way to an agent of another node. */
interface AgentRoute {
  readonly connection: RequestOptions;
  /** Maximum number of characters of an answer. */
  readonly answerMax: number;
  /** Returns the failure that `thrown` means on this way. */
  readonly failureOf: (thrown: unknown) => SeineError;
}

/** Sends requests to one agent: over its socket on this node, or over another way. */
export class AgentClient {
  /** Empty for an agent of another node. */
  readonly socketPath: string;
  readonly #route: AgentRoute;

  constructor(place: string | AgentRoute) {
    this.socketPath = typeof place === 'string' ? place : '';
    this.#route = typeof place === 'string' ? localRoute(place) : place;
  }

  /**
   * @param path with query
   * @throws SeineError `UNAVAILABLE` if no agent answers, with the errno name in `context.errno`
   */
  async get(path: string, method: 'GET' | 'POST' = 'GET', signal?: AbortSignal): Promise<AgentAnswer> {
    for (let attempt = 1; ; attempt++) {
      const asked = request({ ...this.#route.connection, path, method, ...(signal && { signal }) });
      try {
        return await answerOf(asked, this.#route.answerMax);
      } catch (thrown) {
        // An idle connection may end just when it is used again.
        if (asked.reusedSocket && method === 'GET' && signal?.aborted !== true && attempt < ATTEMPTS_MAX) continue;
        throw signal?.aborted ? abortedBy(signal, thrown) : this.#route.failureOf(thrown);
      }
    }
  }

  /**
   * Returns the JSON of a successful answer.
   *
   * @throws SeineError like `get`, and `REFUSED` with the agent's message for any other answer
   */
  async json(path: string, method: 'GET' | 'POST' = 'GET', signal?: AbortSignal): Promise<unknown> {
    const body = await this.text(path, method, signal);
    try {
      return JSON.parse(body);
    } catch (cause) {
      throw new SeineError('UNAVAILABLE', 'the answer breaks off', { cause });
    }
  }

  /** Returns the text of a successful answer. @throws SeineError like `json` */
  async text(path: string, method: 'GET' | 'POST' = 'GET', signal?: AbortSignal): Promise<string> {
    const { status, body } = await this.get(path, method, signal);
    if (status !== 200) throw refusal(status, body);
    return body;
  }

  /**
   * Yields the lines of an answer as they arrive, until its end, or until the caller leaves the loop.
   *
   * @throws SeineError like `json`, `PROTOCOL` for a line that is too long, `CANCELLED` if `signal` is aborted first
   */
  async *lines(path: string, method: 'GET' | 'POST', signal: AbortSignal): AsyncGenerator<string, void, undefined> {
    const response = await this.#open(path, method, signal);
    try {
      response.setEncoding('utf8');
      if (response.statusCode !== 200) throw refusal(response.statusCode ?? 0, await textOf(response));
      let rest = '';
      for await (const piece of response as AsyncIterable<string>) {
        const lines = (rest + piece).split('\n');
        rest = lines.pop() ?? '';
        if (rest.length > LINE_CHARACTERS_MAX) throw new SeineError('PROTOCOL', 'a line of the answer is too long');
        yield* lines;
      }
    } catch (thrown) {
      if (signal.aborted) throw new SeineError('CANCELLED', 'the time is over', { cause: thrown });
      throw thrown instanceof SeineError ? thrown : this.#route.failureOf(thrown);
    } finally {
      response.destroy();
    }
  }

  #open(path: string, method: 'GET' | 'POST', signal: AbortSignal): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const asked = request({ ...this.#route.connection, path, method, signal }, resolve);
      asked.on('error', (error) =>
        reject(signal.aborted ? new SeineError('CANCELLED', 'the time is over', { cause: error }) : this.#route.failureOf(error)),
      );
      asked.end();
    });
  }
}

function localRoute(socketPath: string): AgentRoute {
  return { connection: { socketPath, agent: false }, answerMax: ANSWER_CHARACTERS_MAX, failureOf: unreachable };
}

/** Reads an answer that is bounded, and whose parts follow each other without long pauses. */
function answerOf(asked: ClientRequest, charactersMax: number): Promise<AgentAnswer> {
  return new Promise((resolve, reject) => {
    const silence = setTimeout(() => asked.destroy(new SeineError('UNAVAILABLE', `no answer within ${SILENCE_MS / 1_000} s`)), SILENCE_MS);
    asked.once('response', (response) => {
      const pieces: string[] = [];
      let length = 0;
      response.setEncoding('utf8');
      response.on('data', (piece: string) => {
        silence.refresh();
        length += piece.length;
        if (length > charactersMax) response.destroy(new SeineError('PROTOCOL', 'the answer is too long'));
        else pieces.push(piece);
      });
      response.once('error', reject);
      response.once('end', () => resolve({ status: response.statusCode ?? 0, body: pieces.join('') }));
    });
    asked.on('error', reject);
    asked.once('close', () => clearTimeout(silence));
    asked.end();
  });
}

function abortedBy({ reason }: AbortSignal, cause: unknown): SeineError {
  const isLate = reason instanceof Error && reason.name === 'TimeoutError';
  return isLate ? new SeineError('UNAVAILABLE', 'no answer in time', { cause }) : new SeineError('CANCELLED', 'query an agent', { cause });
}

function unreachable(thrown: unknown): SeineError {
  const errno = thrown instanceof Error && 'code' in thrown ? String(thrown.code) : undefined;
  const message = thrown instanceof SeineError ? thrown.rawMessage : thrown instanceof Error ? thrown.message : String(thrown);
  return new SeineError('UNAVAILABLE', message, { context: { errno }, cause: thrown });
}

function refusal(status: number, body: string): SeineError {
  return new SeineError(status === 400 ? 'INVALID_INPUT' : 'REFUSED', withoutCode(body.trim()), { context: { status } });
}

async function textOf(response: IncomingMessage): Promise<string> {
  let text = '';
  for await (const piece of response as AsyncIterable<string>) if (text.length < LINE_CHARACTERS_MAX) text += piece;
  return text;
}
