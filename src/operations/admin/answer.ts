import type { LoopTurns } from '../../base/async/loop-turns.ts';

/** Answer of a path. A long body is sent in chunks, which are made while they are sent. */
export interface ApiAnswer {
  readonly status: number;
  readonly contentType: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: string | AsyncIterable<string>;
}

/** Handler of a path, without query. @throws SeineError `INVALID_INPUT` for an invalid query, `UNAVAILABLE` */
type ApiRoute = (query: URLSearchParams, signal: AbortSignal) => Promise<ApiAnswer> | ApiAnswer;
export type ApiRoutes = Readonly<Record<string, ApiRoute>>;

/** Number of characters collected before they are sent. */
const CHUNK_LENGTH = 64 * 1024;

export function json(value: unknown, status = 200): ApiAnswer {
  return { status, contentType: 'application/json', body: `${JSON.stringify(value)}\n` };
}

export function text(body: string, status = 200): ApiAnswer {
  return { status, contentType: 'text/plain; charset=utf-8', body: `${body}\n` };
}

/** `{"items": […]}`, written while the items are made, so that a hundred thousand of them neither block the loop nor accumulate. */
export function itemsAnswer(items: Iterable<unknown> | AsyncIterable<unknown>, turns: LoopTurns): ApiAnswer {
  return { status: 200, contentType: 'application/json', body: itemChunks(items, turns) };
}

/** Lines, written while they are made. */
export function linesAnswer(
  lines: Iterable<string> | AsyncIterable<string>,
  turns: LoopTurns,
  contentType = 'application/x-ndjson',
): ApiAnswer {
  return { status: 200, contentType, body: lineChunks(lines, turns) };
}

async function* lineChunks(lines: Iterable<string> | AsyncIterable<string>, turns: LoopTurns): AsyncGenerator<string> {
  let piece = '';
  for await (const line of lines) {
    piece += `${line}\n`;
    if (piece.length >= CHUNK_LENGTH) {
      yield piece;
      piece = '';
    }
    if (turns.due) await turns.next();
  }
  yield piece;
}

async function* itemChunks(items: Iterable<unknown> | AsyncIterable<unknown>, turns: LoopTurns): AsyncGenerator<string> {
  let piece = '{"items":[';
  let separator = '\n';
  for await (const item of items) {
    piece += separator + JSON.stringify(item);
    separator = ',\n';
    if (piece.length >= CHUNK_LENGTH) {
      yield piece;
      piece = '';
    }
    if (turns.due) await turns.next();
  }
  yield `${piece}\n]}\n`;
}
