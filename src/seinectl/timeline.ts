import { type Command, InvalidArgumentError, Option } from 'commander';
import * as z from 'zod';
import { SeineError } from '../base/errors/seine-error.ts';
import type { AgentClient } from './agent-client.ts';
import { safeLine } from './escape.ts';
import { exitCodes } from './exit-codes.ts';
import type { Tone } from './paint.ts';
import type { Terminal } from './terminal.ts';
import { secondsUpToADay } from './time-option.ts';
import { duration } from './words.ts';

const levels = ['error', 'warn', 'info', 'debug'] as const;
type Level = (typeof levels)[number];

interface TimelineOptions {
  /** Seconds. */
  readonly since: number;
  /** Lowest level to print. */
  readonly level: Level;
  /** Only lines that contain this text, ignoring case. */
  readonly about?: string;
  /** Lines as they were written. */
  readonly json?: boolean;
}

interface TimelineContext {
  readonly agent: () => AgentClient;
  readonly terminal: Terminal;
  /** Called with the exit code. */
  readonly exitWith: (work: Promise<number>) => Promise<void>;
}

const help = `
Sync with the API server, changes accepted and refused by OVS and kernel, repaired foreign changes, calls of the container
runtime, connections: one line each, the oldest first, from the last lines of the agent's log in memory (five thousand
of them, including debug lines if enabled: seinectl log-level debug --for 10m).

Examples:
  seinectl timeline                          the last ten minutes
  seinectl timeline --since 2h --level warn  warnings and errors
  seinectl timeline --about shop/web-0       events about a pod

Exit codes: 0 answered, also without lines; 3 no agent answers.`;

/** Adds `seinectl timeline`: the last actions of the agent. */
export function addTimeline(root: Command, { agent, terminal, exitWith }: TimelineContext): void {
  root
    .command('timeline')
    .description('show what the agent did last: one line for each event, oldest first')
    .option('--since <time>', 'how far back, e.g. 90s, 10m or 2h; a day at most', secondsUpToADay, 600)
    .addOption(new Option('--level <level>', 'only lines of this level and above').choices(levels).default('debug' satisfies Level))
    .option('--about <text>', 'only lines with this text, e.g. a pod, an owner, bridge', notEmpty)
    .option('--json', 'print the JSON lines of the log')
    .addHelpText('after', help)
    .action((options: TimelineOptions) => exitWith(timeline(agent(), options, terminal, Date.now())));
}

function notEmpty(text: string): string {
  if (text === '') throw new InvalidArgumentError('must not be empty.');
  return text;
}

/** @param nowMs current time of the agent's host. @throws SeineError like `AgentClient.get` */
export async function timeline(agent: AgentClient, options: TimelineOptions, terminal: Terminal, nowMs: number): Promise<number> {
  const { status, body } = await agent.get('/v1/logs');
  if (status !== 200) throw new SeineError('REFUSED', body.trim(), { context: { status } });
  const kept = body.split('\n').flatMap(lineOf);
  const fromMs = nowMs - options.since * 1_000;
  const shown = kept.filter((line) => isWanted(line, options, fromMs));
  for (const line of shown) terminal.line(options.json ? safeLine(line.text) : eventText(line, terminal));
  if (shown.length === 0 && !options.json) terminal.remark(`seinectl: nothing in the last ${duration(options.since)}`);
  const first = kept[0];
  if (first !== undefined && first.timeMs > fromMs)
    terminal.remark(safeLine(`… the agent's memory of this begins at ${first.event.time}; before: kubectl logs, with --previous`));
  return exitCodes.ok;
}

const lineSchema = z.looseObject({ level: z.enum(levels), time: z.iso.datetime(), msg: z.string() });

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

function isWanted({ text, timeMs, event }: LogLine, { level, about }: TimelineOptions, fromMs: number): boolean {
  if (timeMs < fromMs || levels.indexOf(event.level) > levels.indexOf(level)) return false;
  return about === undefined || text.toLowerCase().includes(about.toLowerCase());
}

const tones: Readonly<Record<Level, Tone>> = { error: 'bad', warn: 'warning', info: 'strong', debug: 'quiet' };
const WIDTH = 5;

/** `2026-11-23T17:41:54.746Z info  in step with the API server  resource=Service objects=2`. */
function eventText({ event }: LogLine, { room: { paint } }: Terminal): string {
  const { level, time, msg, node: _node, ...fields } = event;
  const facts = Object.entries(fields).map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`);
  return `${time} ${paint(tones[level], level.padEnd(WIDTH))} ${safeLine([msg, ...facts].join('  '))}`;
}
