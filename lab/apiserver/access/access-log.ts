import { appendFileSync } from 'node:fs';
import type { ApiRequest } from '../http/api-request.ts';
import { accessOf } from './authorization.ts';

/** One kind of request by a user, and whether it was allowed. */
export interface AccessLine {
  readonly user: string;
  readonly verb: string;
  readonly group: string;
  /** `pods`, or `nodes/status`. */
  readonly resource: string;
  readonly allowed: boolean;
}

/** Maximum number of distinct lines, above the number in any lab. */
const linesMax = 10_000;

/** Records the requests of each user, each kind once: the permissions a program uses. One line of JSON per kind, {@link AccessLine}. */
export function openAccessLog(path: string): (request: ApiRequest, allowed: boolean) => void {
  const seen = new Set<string>();
  return (request, allowed) => {
    const { verb, group, resource } = accessOf(request);
    const line = JSON.stringify({ user: request.user.name, verb, group, resource, allowed } satisfies AccessLine);
    if (resource === '' || seen.has(line) || seen.size >= linesMax) return;
    seen.add(line);
    appendFileSync(path, `${line}\n`, { mode: 0o600 });
  };
}
