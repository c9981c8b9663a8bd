import { SeineError } from '../base/errors/seine-error.ts';
import { safeText } from './escape.ts';
import { exitCodes } from './exit-codes.ts';
import type { Terminal } from './terminal.ts';

/**
 * Reports an agent that cannot answer now, or is too old, for commands whose exit code 1 is an answer: a refusal to answer is no denial.
 *
 * @returns the exit code
 * @throws other failures
 */
export function refusedAnswer(thrown: unknown, terminal: Terminal): number {
  if (!(thrown instanceof SeineError) || thrown.code !== 'REFUSED') throw thrown;
  if (thrown.context['path'] !== undefined) throw thrown; // the API server refuses the way to the agent
  const old = thrown.context['status'] === 404 ? ' (the agent may be older than this seinectl)' : '';
  terminal.remark(`seinectl: ${safeText(thrown.rawMessage)}${old}`);
  return exitCodes.unreachable;
}
