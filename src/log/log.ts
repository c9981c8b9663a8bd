import pino from 'pino';

export type LogLevel = 'error' | 'warn' | 'info' | 'debug';

/**
 * JSON lines: a constant message, data in fields. `error` = a human should look, `warn` = degraded and healing itself,
 * `info` = lifecycle and changes, `debug` = rounds.
 */
export interface Log {
  error(message: string, fields?: Readonly<Record<string, unknown>>): void;
  warn(message: string, fields?: Readonly<Record<string, unknown>>): void;
  info(message: string, fields?: Readonly<Record<string, unknown>>): void;
  debug(message: string, fields?: Readonly<Record<string, unknown>>): void;
  child(fields: Readonly<Record<string, unknown>>): Log;
}

/** Writes to file descriptor 2, synchronously: a line is out before a crash that follows it. */
export function createLog(level: LogLevel): Log {
  const destination = pino.destination({ dest: 2, sync: true });
  return wrap(
    pino(
      { level, base: null, timestamp: pino.stdTimeFunctions.isoTime, formatters: { level: (label) => ({ level: label }) } },
      destination,
    ),
  );
}

/** For tests and for library users that want silence. */
export const silentLog: Log = {
  error: () => {},
  warn: () => {},
  info: () => {},
  debug: () => {},
  child: () => silentLog,
};

function wrap(logger: pino.Logger): Log {
  return {
    error: (message, fields) => logger.error({ ...fields }, message),
    warn: (message, fields) => logger.warn({ ...fields }, message),
    info: (message, fields) => logger.info({ ...fields }, message),
    debug: (message, fields) => logger.debug({ ...fields }, message),
    child: (fields) => wrap(logger.child({ ...fields })),
  };
}
