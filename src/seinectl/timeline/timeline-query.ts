import { historySubjects } from '../../api/history.ts';
import { SeineError } from '../../base/errors/seine-error.ts';

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

const oneName = /^[a-z0-9.-]{1,253}$/;
const twoNames = /^[a-z0-9.-]{1,253}\/[a-z0-9.-]{1,253}$/;

/** Query string of `GET /v1/timeline`. */
export function timelinePath({ subject, fromMs, untilMs, follow }: TimelineQuery): string {
  const query = new URLSearchParams({ from: String(Math.max(0, Math.round(fromMs))) });
  if (untilMs !== undefined) query.append('until', String(Math.max(0, Math.round(untilMs))));
  if (subject !== undefined) query.append('subject', subject);
  if (follow) query.append('follow', '1');
  return `/v1/timeline?${query}`;
}
