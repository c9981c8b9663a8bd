import pino from 'pino';
import { LineRing } from './line-ring.ts';
import { Repeats } from './repeats.ts';

/** Levels, starting with the least verbose one. */
export const logLevels = ['error', 'warn', 'info', 'debug'] as const;
export type LogLevel = (typeof logLevels)[number];

type LogFields = Readonly<Record<string, unknown>>;

/**
 * Log of JSON lines: a constant message, data in fields. `error`: an operator should act; `warn`: degraded, and repaired automatically;
 * `info`: lifecycle and changes; `debug`: rounds.
 */
export interface Log {
  error(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  debug(message: string, fields?: LogFields): void;
  /**
   * Logs repeated failures: the first one at once, then at growing intervals with `times` and `seconds`. Another `cause` is logged at once.
   *
   * @param key name of what fails, from a bounded set; `working` with the same key ends the series
   */
  failing(key: string, message: string, fields: LogFields & { readonly cause: string }, level?: 'warn' | 'error'): void;
  /** Logs one line if the key has failed before; nothing otherwise. */
  working(key: string): void;
  child(fields: LogFields): Log;
}

/** Log of a program, with the settings that can be changed while it runs. */
interface ProgramLog extends Log {
  readonly control: LogControl;
}

/** Writes to file descriptor 2, synchronously: a line is out before a crash that follows it. The last lines are kept in memory as well. */
export function createLog(level: LogLevel): ProgramLog {
  const destination = pino.destination({ dest: 2, sync: true });
  return createLogTo(level, (line) => destination.write(line));
}

/** Creates a log. @param write receives each line, including its line break */
export function createLogTo(level: LogLevel, write: (line: string) => void, now?: () => number): ProgramLog {
  const control = new LogControl(level);
  const both = {
    write: (line: string): void => {
      control.ring.push(line);
      write(line);
    },
  };
  const logger = pino(
    { level: 'debug', base: null, timestamp: pino.stdTimeFunctions.isoTime, formatters: { level: (label) => ({ level: label }) } },
    both,
  );
  return { ...wrap(logger, { control, repeats: new Repeats(now) }), control };
}

/** Current level, and the last lines. */
export class LogControl {
  readonly ring = new LineRing();
  /** Configured level, which applies after a temporary change. */
  readonly usual: LogLevel;
  #level: LogLevel;
  #untilMs: number | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(usual: LogLevel) {
    this.usual = usual;
    this.#level = usual;
  }

  get level(): LogLevel {
    return this.#level;
  }

  /** Time until the configured level applies again (s); undefined if the current one has no end. */
  get secondsLeft(): number | undefined {
    return this.#untilMs === undefined ? undefined : Math.max(0, Math.ceil((this.#untilMs - performance.now()) / 1_000));
  }

  /** Sets the level. @param forSeconds time until the configured level applies again; without it, the level stays until the program ends */
  set(level: LogLevel, forSeconds?: number): void {
    clearTimeout(this.#timer);
    this.#level = level;
    this.#untilMs = forSeconds === undefined ? undefined : performance.now() + forSeconds * 1_000;
    this.#timer = forSeconds === undefined ? undefined : setTimeout(() => this.set(this.usual), forSeconds * 1_000).unref();
  }

  tells(level: LogLevel): boolean {
    return logLevels.indexOf(level) <= logLevels.indexOf(this.#level);
  }
}

/** Log that writes nothing, for tests and for library users. */
export const silentLog: Log = {
  error: () => {},
  warn: () => {},
  info: () => {},
  debug: () => {},
  failing: () => {},
  working: () => {},
  child: () => silentLog,
};

interface Shared {
  readonly control: LogControl;
  readonly repeats: Repeats;
}

function wrap(logger: pino.Logger, shared: Shared): Log {
  const { control, repeats } = shared;
  const tell = (level: LogLevel, message: string, fields?: LogFields): void => {
    if (control.tells(level)) logger[level]({ ...fields }, message);
  };
  return {
    error: (message, fields) => tell('error', message, fields),
    warn: (message, fields) => tell('warn', message, fields),
    info: (message, fields) => tell('info', message, fields),
    debug: (message, fields) => tell('debug', message, fields),
    failing(key, message, fields, level = 'warn') {
      const series = repeats.failed(key, fields.cause);
      if (series) tell(level, message, series.times === 1 ? fields : { ...fields, ...series });
    },
    working(key) {
      const series = repeats.worked(key);
      if (series) tell('info', 'works again', { what: key, failures: series.times, seconds: series.seconds });
    },
    child: (fields) => wrap(logger.child({ ...fields }), shared),
  };
}
