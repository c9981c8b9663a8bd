import { getSystemErrorName } from 'node:util';
import { type ErrorDetails, SeineError } from '../base/errors/seine-error.ts';

/**
 * Converts a refusal of the kernel to `REFUSED`, with `errno` (its name, e.g. `EEXIST`) and `call` in the context.
 *
 * @param errno positive, as in `errno.h`
 */
export function kernelError(call: string, errno: number, message: string, { context = {}, cause }: ErrorDetails = {}): SeineError {
  const name = errnoName(errno);
  return new SeineError('REFUSED', `${message}: ${name}`, { context: { ...context, call, errno: name }, cause });
}

/** `EEXIST` for 17; `errno 4711` for a number without a name. */
export function errnoName(errno: number): string {
  if (!Number.isInteger(errno) || errno <= 0 || errno > 4095) return `errno ${errno}`;
  const name = getSystemErrorName(-errno);
  return name.startsWith('Unknown system error') ? `errno ${errno}` : name;
}

/** Returns the same error with more detail. */
export function amended(error: SeineError, suffix: string, context: Readonly<Record<string, unknown>>): SeineError {
  const message = error.message.replace(`[${error.code}] `, '');
  return new SeineError(error.code, `${message}${suffix}`, { context: { ...error.context, ...context }, cause: error });
}

/** Returns the errno name of an error of this room (or of Node's `fs`), if it has one. */
export function errnoOf(thrown: unknown): string | undefined {
  if (thrown instanceof SeineError) return typeof thrown.context['errno'] === 'string' ? thrown.context['errno'] : undefined;
  return thrown instanceof Error && 'code' in thrown && typeof thrown.code === 'string' ? thrown.code : undefined;
}
