import { readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { ClusterRole } from 'kubernetes-types/rbac/v1.d.ts';

/**
 * Fields of an event of the API server's audit log that are read here; https://kubernetes.io/docs/reference/config-api/apiserver-audit.v1/.
 */
interface AuditEvent {
  readonly verb: string;
  readonly user: { readonly username: string };
  readonly userAgent?: string;
  readonly requestURI: string;
  /** Time in RFC 3339. */
  readonly requestReceivedTimestamp: string;
  readonly objectRef?: { readonly apiGroup?: string; readonly resource: string; readonly subresource?: string };
  readonly responseStatus?: { readonly code?: number; readonly message?: string };
}

/** Interval in which an API server was starting (ms since the epoch). */
export interface Starting {
  readonly fromMs: number;
  readonly toMs: number;
}

interface Account {
  /** `VERB RESOURCE`, with group and subresource as RBAC writes them. */
  readonly used: ReadonlySet<string>;
  /** Requests that the API server denied to the agents, once each. */
  readonly refused: readonly string[];
}

/**
 * Requests of agents to the API server since the cluster was created. Requests of tests that use an agent's token are excluded by their
 * user agent.
 *
 * @param auditLog the file; full ones are next to it
 * @param starts an API server answers before it has read the roles, and rejects everything: rejections of that time do not count
 */
export function askedByAgents(auditLog: string, starts: readonly Starting[] = []): Account {
  const used = new Set<string>();
  const refused = new Set<string>();
  for (const { verb, userAgent = '', objectRef, responseStatus, requestURI, requestReceivedTimestamp } of events(auditLog)) {
    if (userAgent !== 'seine-agent' || objectRef === undefined) continue;
    const { apiGroup, resource, subresource } = objectRef;
    used.add(`${verb} ${named(resource, subresource)}${apiGroup ? `.${apiGroup}` : ''}`);
    if (responseStatus?.code === 403 && !starts.some((start) => isWithin(start, requestReceivedTimestamp)))
      refused.add(`${verb} ${requestURI}: ${responseStatus.message}`);
  }
  return { used, refused: [...refused] };
}

const isWithin = ({ fromMs, toMs }: Starting, timestamp: string) => fromMs <= Date.parse(timestamp) && Date.parse(timestamp) <= toMs;

/** Permissions of a role, in the same form. */
export function grantsOf({ rules }: ClusterRole): ReadonlySet<string> {
  const each = (rules ?? []).flatMap(({ verbs, apiGroups = [], resources = [] }) =>
    verbs.flatMap((verb) => apiGroups.flatMap((group) => resources.map((resource) => `${verb} ${resource}${group && `.${group}`}`))),
  );
  return new Set(each);
}

const named = (resource: string, subresource = '') => (subresource === '' ? resource : `${resource}/${subresource}`);

function events(auditLog: string): readonly AuditEvent[] {
  const [name = ''] = basename(auditLog).split('.');
  const files = readdirSync(dirname(auditLog)).filter((file) => file.startsWith(`${name}.`) || file.startsWith(`${name}-2`));
  const lines = files.flatMap((file) => readFileSync(join(dirname(auditLog), file), 'utf8').split('\n'));
  return lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as AuditEvent);
}
