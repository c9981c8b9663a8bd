import type { BundlePart } from './collect.ts';

/** Requests to the agent. @throws SeineError with its answer, or the reason why there is none */
type FetchFromAgent = (path: string, signal: AbortSignal) => Promise<string>;

/** Order: the most useful first, last those that are compared with the bridge. */
const answers = {
  'agent/status.json': '/v1/status',
  'agent/config.json': '/v1/config',
  'agent/log.ndjson': '/v1/logs',
  'agent/metrics.txt': '/metrics',
  'agent/diff.json': '/v1/diff',
  'agent/leases.json': '/v1/leases',
  'agent/pods.json': '/v1/pods',
  'agent/nodes.json': '/v1/nodes',
  'agent/services.json': '/v1/services',
  'agent/ports.json': '/v1/ports',
  'agent/routes.json': '/v1/routes',
  'agent/groups.json': '/v1/groups',
  'agent/meters.json': '/v1/meters',
  'agent/owners.json': '/v1/owners',
  'agent/log-level.json': '/v1/log-level',
  'agent/inputs.ndjson': '/v1/inputs',
  'agent/policy-evidence.ndjson': '/v1/policy/evidence',
} as const satisfies Readonly<Record<string, string>>;

export const inputsName: keyof typeof answers = 'agent/inputs.ndjson';

/** Owners of entries, with their cookies. */
export const ownersName: keyof typeof answers = 'agent/owners.json';

/** Objects that policies depend on, and the flows of policy. */
export const policyEvidenceName: keyof typeof answers = 'agent/policy-evidence.ndjson';

export function agentParts(ask: FetchFromAgent): readonly BundlePart[] {
  return Object.entries(answers).map(([name, path]) => ({ name, gather: (signal) => ask(path, signal) }));
}
