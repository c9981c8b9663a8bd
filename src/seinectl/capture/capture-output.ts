import { open } from 'node:fs/promises';
import type { Writable } from 'node:stream';
import { SeineError } from '../../base/errors/seine-error.ts';

/** @returns undefined for lines. @throws SeineError `INVALID_INPUT` if the file exists, or cannot be created */
export async function openOutput(write: string | undefined, stdout: Writable): Promise<Writable | undefined> {
  if (write === undefined || write === '-') return write && stdout;
  try {
    return (await open(write, 'wx', 0o600)).createWriteStream();
  } catch (thrown) {
    throw new SeineError('INVALID_INPUT', SeineError.from(thrown, 'capture').rawMessage, { cause: thrown });
  }
}
