import { SeineError } from '../../base/errors/seine-error.ts';
import type { AgentClient } from '../agent-client.ts';
import { safeLine } from '../escape.ts';
import { exitCodes } from '../exit-codes.ts';
import type { Terminal } from '../terminal.ts';
import { duration } from '../words.ts';

interface LogLevelAnswer {
  readonly level: string;
  readonly usual: string;
  readonly secondsLeft?: number;
}

/**
 * `seinectl log-level`: shows the level of the agent's log, or changes it. @param seconds until the configured level applies again. @throws
 * SeineError `INVALID_INPUT`
 */
export async function logLevel(
  agent: AgentClient,
  level: string | undefined,
  seconds: number | undefined,
  terminal: Terminal,
): Promise<number> {
  if (level === undefined && seconds !== undefined) throw new SeineError('INVALID_INPUT', '--for needs a level, e.g. debug --for 10m');
  const query =
    level === undefined ? '' : `?${new URLSearchParams({ level, ...(seconds === undefined ? {} : { seconds: String(seconds) }) })}`;
  const answer = (await agent.json(`/v1/log-level${query}`, level === undefined ? 'GET' : 'POST')) as LogLevelAnswer;
  terminal.line(safeLine(sentence(answer)));
  return exitCodes.ok;
}

function sentence({ level, usual, secondsLeft }: LogLevelAnswer): string {
  if (secondsLeft !== undefined) return `${level} for ${duration(secondsLeft)}, then ${usual} again`;
  return level === usual ? level : `${level} until the agent ends; ${usual} is configured`;
}
