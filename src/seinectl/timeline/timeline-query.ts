import { historySubjects } from '../../api/history.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { secondsOf } from '../words.ts';

/** Events to show. Times are in milliseconds since the epoch. */
export interface TimelineQuery {
  /** `pod/NS/NAME`, `service/NS/NAME`, `node/NAME`, `policy/NS/NAME` or `policy/NAME`. */
  readonly subject?: string;
  readonly fromMs: number;
  /** Absent: now, or never with `follow`. */
  readonly untilMs?: number;
  readonly follow: boolean;
}

/** Returns the subject of a kind and a name. @throws SeineError `INVALID_INPUT` that names the field and the value */
export function timelineSubject(kind: string, name: string | undefined): string {
  const known = historySubjects.find((each) => each === kind);
  if (known === undefined)
    throw new SeineError('INVALID_INPUT', `kind: ${JSON.stringify(kind)} is not one of ${historySubjects.join(', ')}`);
  if (name === undefined) throw new SeineError('INVALID_INPUT', `name: the name of the ${kind} is missing`);
  const full = (kind === 'pod' || kind === 'service') && !name.includes('/') ? `default/${name}` : name;
  const isValid =
    kind === 'node' ? oneName.test(full) : kind === 'policy' ? oneName.test(full) || twoNames.test(full) : twoNames.test(full);
  if (!isValid)
    throw new SeineError('INVALID_INPUT', `name: ${JSON.stringify(name)} is not ${kind === 'node' ? 'NAME' : 'NAMESPACE/NAME'}`);
  return `${known}/${full}`;
}

/** Name of an object: begins and ends with a letter or digit, so that no part of a path is `..`. */
const label = '[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?';
const oneName = new RegExp(`^${label}$`);
const twoNames = new RegExp(`^${label}/${label}$`);

/** Query string of `GET /v1/timeline`. */
export function timelinePath({ subject, fromMs, untilMs, follow }: TimelineQuery): string {
  const query = new URLSearchParams({ from: String(Math.max(0, Math.round(fromMs))) });
  if (untilMs !== undefined) query.append('until', String(Math.max(0, Math.round(untilMs))));
  if (subject !== undefined) query.append('subject', subject);
  if (follow) query.append('follow', '1');
  return `/v1/timeline?${query}`;
}

/** Returns the command line that prints the same on a node. The command writes a line at its end, so that an answer without events is not taken for a missing one. */
export function timelineCommand({ subject, fromMs, untilMs }: TimelineQuery): readonly string[] {
  const [kind = '', ...name] = (subject ?? '').split('/');
  const until = untilMs === undefined ? [] : ['--until', new Date(untilMs).toISOString()];
  const about = subject === undefined ? [] : [kind, name.join('/')];
  return ['seinectl', 'timeline', ...about, '--since', new Date(fromMs).toISOString(), ...until, '-o', 'json', '--end'];
}

/** Parses a duration before now such as `2h`, or a time (RFC 3339). @returns milliseconds since the epoch; undefined for other text */
export function timeIn(text: string, nowMs: number): number | undefined {
  const seconds = secondsOf(text);
  if (seconds !== undefined) return nowMs - seconds * 1_000;
  const ms = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:\d\d)$/.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(ms) ? undefined : ms;
}
