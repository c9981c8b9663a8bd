import { SeineError } from '../../base/errors/seine-error.ts';
import { type LogControl, type LogLevel, logLevels } from '../../base/log/log.ts';
import type { Ipam } from '../../pods/ipam/ipam.ts';
import { type ApiAnswer, json } from './answer.ts';

/** A day: a verbose level that is forgotten must not fill the log for ever. */
const logSecondsMax = 24 * 3_600;

/** Returns the last lines of the log, oldest first, as they were written. */
export function lastLines({ ring }: LogControl): ApiAnswer {
  return { status: 200, contentType: 'application/x-ndjson', body: ring.text() };
}

export function logLevel({ level, usual, secondsLeft }: LogControl): ApiAnswer {
  return json({ level, usual, ...(secondsLeft === undefined ? {} : { secondsLeft }) });
}

/** `?level=`, and `&seconds=` until the configured level applies again. @throws SeineError `INVALID_INPUT` */
export function setLogLevel(control: LogControl, query: URLSearchParams): ApiAnswer {
  const asked = query.get('level');
  const level = logLevels.find((each) => each === asked);
  if (level === undefined) throw new SeineError('INVALID_INPUT', `level ${JSON.stringify(asked)}: one of ${logLevels.join(', ')}`);
  control.set(level satisfies LogLevel, secondsOf(query));
  return logLevel(control);
}

function secondsOf(query: URLSearchParams): number | undefined {
  const text = query.get('seconds');
  if (text === null) return undefined;
  const seconds = Number(text);
  if (!Number.isInteger(seconds) || seconds < 1 || seconds > logSecondsMax)
    throw new SeineError('INVALID_INPUT', `seconds: a whole number from 1 to ${logSecondsMax}`);
  return seconds;
}

/** Returns the agent's configuration, including defaults. */
export function configuration({ config }: { readonly config: object }): ApiAnswer {
  return json(plain(config));
}

export interface LeasesPort {
  /** @throws SeineError `UNAVAILABLE` until the node is known */
  readonly running: () => { readonly ipam: Pick<Ipam, 'usage' | 'leases'> };
}

/** Returns the whole contents of the IPAM journal. */
export function leases({ running }: LeasesPort): ApiAnswer {
  const { ipam } = running();
  return json(plain({ pools: ipam.usage(), leases: ipam.leases() }));
}

/** Converts addresses and networks to text. */
function plain(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if ('text' in value && 'family' in value) return value.text;
  if (Array.isArray(value)) return value.map(plain);
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, plain(each)]));
}
