import { request } from 'node:http';
import { SeineError } from '../errors/seine-error.ts';

/** An agent that says nothing for so long is not going to (ms). */
const SILENCE_MS = 15_000;
const ANSWER_CHARACTERS_MAX = 400_000_000;

/** What an agent said to one question. */
export interface AgentAnswer {
  readonly status: number;
  readonly body: string;
}

/** Asks one agent, over its socket on this node. */
export class AgentClient {
  readonly socketPath: string;

  constructor(socketPath: string) {
    this.socketPath = socketPath;
  }

  /**
   * @param path with query
   * @throws SeineError `UNAVAILABLE` if no agent answers, with the system's word for it in `context.errno`
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
   * The JSON of an answer that is one.
   *
   * @throws SeineError as `get`, and `REFUSED` with what the agent said if it does not answer the question
   */
  async json(path: string, method: 'GET' | 'POST' = 'GET'): Promise<unknown> {
    const { status, body } = await this.get(path, method);
    if (status !== 200) throw new SeineError(status === 400 ? 'INVALID_INPUT' : 'REFUSED', withoutCode(body), { context: { status } });
    try {
      return JSON.parse(body);
    } catch (cause) {
      throw new SeineError('UNAVAILABLE', 'the answer breaks off', { cause });
    }
  }

  #unreachable(thrown: unknown): SeineError {
    const errno = thrown instanceof Error && 'code' in thrown ? String(thrown.code) : undefined;
    const message = thrown instanceof SeineError ? withoutCode(thrown.message) : thrown instanceof Error ? thrown.message : String(thrown);
    return new SeineError('UNAVAILABLE', message, { context: { errno }, cause: thrown });
  }
}

export function withoutCode(message: string): string {
  return message.trim().replace(/^\[[A-Z_]+\] /, '');
}
