import type { Readable } from 'node:stream';
import { SeineError } from '../base/errors/seine-error.ts';

/** Maximum length of a line; longer ones are not part of a dump. */
const LINE_LENGTH_MAX = 1024 * 1024;

/**
 * Yields the lines of a text as they arrive, without their ends.
 *
 * @throws SeineError `INVALID_INPUT` if it cannot be read, or has a line that no tool writes. (`readline` would end the process for a file
 *   that cannot be read.)
 */
export async function* linesOf(input: Readable, name: string): AsyncGenerator<string> {
  let rest = '';
  input.setEncoding('utf8');
  try {
    for await (const piece of input as AsyncIterable<string>) {
      const lines = (rest + piece).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) yield line.replace(/\r$/, '');
      if (rest.length > LINE_LENGTH_MAX)
        throw new SeineError('INVALID_INPUT', `${name} is not a dump: a line is longer than ${LINE_LENGTH_MAX}`);
    }
  } catch (thrown) {
    if (thrown instanceof SeineError) throw thrown;
    throw new SeineError('INVALID_INPUT', `${name} cannot be read: ${thrown instanceof Error ? thrown.message : thrown}`, {
      cause: thrown,
    });
  }
  if (rest !== '') yield rest;
}
