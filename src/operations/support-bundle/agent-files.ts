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
  'agent/objects.ndjson': '/v1/objects',
  'agent/drops.json': '/v1/drops',
  'agent/flow-summary.json': '/v1/flow-log/summary?seconds=3600',
} as const satisfies Readonly<Record<string, string>>;

export const inputsName: keyof typeof answers = 'agent/inputs.ndjson';

/** Owners of entries, with their cookies. */
export const ownersName: keyof typeof answers = 'agent/owners.json';

/** Objects that policies depend on, and the flows of policy. */
export const policyEvidenceName: keyof typeof answers = 'agent/policy-evidence.ndjson';

/** Services, EndpointSlices and live settings; absent from bundles before 0.29. */
export const objectsName: keyof typeof answers = 'agent/objects.ndjson';

/** Packets that ended on the bridge, by reason; absent from bundles before 0.29. */
export const dropsName: keyof typeof answers = 'agent/drops.json';

/** Connections of the last hour by workloads; absent from bundles before 0.29. */
export const flowSummaryName: keyof typeof answers = 'agent/flow-summary.json';

/** State of the agent. */
export const statusName: keyof typeof answers = 'agent/status.json';

/** Services as the node serves them. */
export const servicesName: keyof typeof answers = 'agent/services.json';

/** Pods of the node. */
export const podsName: keyof typeof answers = 'agent/pods.json';

export function agentParts(ask: FetchFromAgent): readonly BundlePart[] {
  return Object.entries(answers).map(([name, path]) => ({ name, gather: (signal) => ask(path, signal) }));
}
