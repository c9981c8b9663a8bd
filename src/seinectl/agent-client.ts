import { type IncomingMessage, request } from 'node:http';
import { SeineError, withoutCode } from '../base/errors/seine-error.ts';

/** Time without any data after which an agent counts as unresponsive (ms). */
const SILENCE_MS = 15_000;
/** Maximum length of a line; an object of the API has at most 8 MiB. */
const LINE_CHARACTERS_MAX = 16 * 1024 * 1024;
const ANSWER_CHARACTERS_MAX = 400_000_000;

/** Answer of an agent to one request. */
interface AgentAnswer {
  readonly status: number;
  readonly body: string;
}

/** Sends requests to one agent, over its socket on this node. */
export class AgentClient {
  readonly socketPath: string;

  constructor(socketPath: string) {
    this.socketPath = socketPath;
  }

  /**
   * @param path with query
   * @throws SeineError `UNAVAILABLE` if no agent answers, with the errno name in `context.errno`
   */
  get(path: string, method: 'GET' | 'POST' = 'GET'): Promise<AgentAnswer> {
    return new Promise((resolve, reject) => {
      const fail = (thrown: unknown): void => reject(this.#unreachable(thrown));
      const asked = request({ socketPath: this.socketPath, path, method, timeout: SILENCE_MS, agent: false }, (response) => {
        const pieces: string[] = [];
        let length = 0;
        response.setEncoding('utf8');
        response.on('data', (piece: string) => {
          length += piece.length;
          if (length > ANSWER_CHARACTERS_MAX) response.destroy(new SeineError('PROTOCOL', 'the answer is too long'));
          else pieces.push(piece);
        });
        response.once('error', fail);
        response.once('end', () => resolve({ status: response.statusCode ?? 0, body: pieces.join('') }));
      });
      asked.once('timeout', () => asked.destroy(new SeineError('UNAVAILABLE', `no answer within ${SILENCE_MS / 1_000} s`)));
      asked.once('error', fail);
      asked.end();
    });
  }

  /**
   * Returns the JSON of a successful answer.
   *
   * @throws SeineError like `get`, and `REFUSED` with the agent's message for any other answer
   */
  async json(path: string, method: 'GET' | 'POST' = 'GET'): Promise<unknown> {
    const { status, body } = await this.get(path, method);
    if (status !== 200) throw refusal(status, body);
    try {
      return JSON.parse(body);
    } catch (cause) {
      throw new SeineError('UNAVAILABLE', 'the answer breaks off', { cause });
    }
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
      throw thrown instanceof SeineError ? thrown : this.#unreachable(thrown);
    } finally {
      response.destroy();
    }
  }

  #open(path: string, method: 'GET' | 'POST', signal: AbortSignal): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const asked = request({ socketPath: this.socketPath, path, method, signal, agent: false }, resolve);
      asked.on('error', (error) =>
        reject(signal.aborted ? new SeineError('CANCELLED', 'the time is over', { cause: error }) : this.#unreachable(error)),
      );
      asked.end();
    });
  }

  #unreachable(thrown: unknown): SeineError {
    const errno = thrown instanceof Error && 'code' in thrown ? String(thrown.code) : undefined;
    const message = thrown instanceof SeineError ? thrown.rawMessage : thrown instanceof Error ? thrown.message : String(thrown);
    return new SeineError('UNAVAILABLE', message, { context: { errno }, cause: thrown });
  }
}

function refusal(status: number, body: string): SeineError {
  return new SeineError(status === 400 ? 'INVALID_INPUT' : 'REFUSED', withoutCode(body.trim()), { context: { status } });
}

async function textOf(response: IncomingMessage): Promise<string> {
  let text = '';
  for await (const piece of response as AsyncIterable<string>) if (text.length < LINE_CHARACTERS_MAX) text += piece;
  return text;
}
