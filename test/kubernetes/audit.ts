import { readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { ClusterRole } from 'kubernetes-types/rbac/v1.d.ts';

/** Of an event of the API server's audit log, what is looked at here; https://kubernetes.io/docs/reference/config-api/apiserver-audit.v1/. */
interface AuditEvent {
  readonly verb: string;
  readonly user: { readonly username: string };
  readonly userAgent?: string;
  readonly requestURI: string;
  /** As RFC 3339 has it. */
  readonly requestReceivedTimestamp: string;
  readonly objectRef?: { readonly apiGroup?: string; readonly resource: string; readonly subresource?: string };
  readonly responseStatus?: { readonly code?: number; readonly message?: string };
}

/** From when until when an API server was on its way (ms since the epoch). */
export interface Starting {
  readonly fromMs: number;
  readonly toMs: number;
}

interface Account {
  /** `VERB RESOURCE`, with group and subresource as RBAC writes them. */
  readonly used: ReadonlySet<string>;
  /** What the API server did not let the agents do, once each. */
  readonly refused: readonly string[];
}

/**
 * What agents have asked of the API server since the cluster is there. Requests of tests that borrow an agent's token are left out by their user agent.
 *
 * @param auditLog the file; those that were full are beside it
 * @param starts an API server answers before it has read the roles, and refuses whatever they grant: what it refused then does not count
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

/** What a role grants, in the same words. */
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
