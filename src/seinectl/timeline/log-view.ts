import * as z from 'zod';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { AgentClient } from '../agent-client.ts';
import { safeLine } from '../escape.ts';
import { exitCodes } from '../exit-codes.ts';
import type { Tone } from '../paint.ts';
import type { Terminal } from '../terminal.ts';
import { duration } from '../words.ts';

export const logViewLevels = ['error', 'warn', 'info', 'debug'] as const;
export type LogViewLevel = (typeof logViewLevels)[number];

interface LogViewOptions {
  /** Seconds. */
  readonly since: number;
  /** Lowest level to print. */
  readonly level: LogViewLevel;
  /** Only lines that contain this text, ignoring case. */
  readonly about?: string;
  /** Lines as they were written. */
  readonly json?: boolean;
}

/**
 * Prints the last lines of the agent's log in memory.
 *
 * @param nowMs current time of the agent's host. @throws SeineError like `AgentClient.get`
 */
export async function showLog(agent: AgentClient, options: LogViewOptions, terminal: Terminal, nowMs: number): Promise<number> {
  const { status, body } = await agent.get('/v1/logs');
  if (status !== 200) throw new SeineError('REFUSED', body.trim(), { context: { status } });
  const kept = body.split('\n').flatMap(lineOf);
  const fromMs = nowMs - options.since * 1_000;
  const shown = kept.filter((line) => isWanted(line, options, fromMs));
  for (const line of shown) terminal.line(options.json ? safeLine(line.text) : lineText(line, terminal));
  if (shown.length === 0 && !options.json) terminal.remark(`seinectl: nothing in the last ${duration(options.since)}`);
  const first = kept[0];
  if (first !== undefined && first.timeMs > fromMs)
    terminal.remark(safeLine(`… the agent's memory of this begins at ${first.event.time}; before: kubectl logs, with --previous`));
  return exitCodes.ok;
}

const lineSchema = z.looseObject({ level: z.enum(logViewLevels), time: z.iso.datetime(), msg: z.string() });

interface LogLine {
  readonly text: string;
  readonly timeMs: number;
  readonly event: z.output<typeof lineSchema>;
}

/** Returns nothing for a line that was cut, or is of another release. */
function lineOf(text: string): LogLine[] {
  try {
    const event = lineSchema.parse(JSON.parse(text));
    return [{ text, timeMs: Date.parse(event.time), event }];
  } catch {
    return [];
  }
}

function isWanted({ text, timeMs, event }: LogLine, { level, about }: LogViewOptions, fromMs: number): boolean {
  if (timeMs < fromMs || logViewLevels.indexOf(event.level) > logViewLevels.indexOf(level)) return false;
  return about === undefined || text.toLowerCase().includes(about.toLowerCase());
}

const tones: Readonly<Record<LogViewLevel, Tone>> = { error: 'bad', warn: 'warning', info: 'strong', debug: 'quiet' };
const WIDTH = 5;

/** `2026-11-23T17:41:54.746Z info  in step with the API server  resource=Service objects=2`. */
function lineText({ event }: LogLine, { room: { paint } }: Terminal): string {
  const { level, time, msg, node: _node, ...fields } = event;
  const facts = Object.entries(fields).map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`);
  return `${time} ${paint(tones[level], level.padEnd(WIDTH))} ${safeLine([msg, ...facts].join('  '))}`;
}
