import * as z from 'zod';
import { listOf, parseObject, type Resource } from '../client/resource.ts';

/*
 * Objects that policies refer to, as the API server has them: members that no policy reads are left out, and nothing is interpreted. A
 * proof of the agent's policy must not depend on the agent's own interpretation, so these share nothing with the watched projections.
 */

/** Labels and whole specifications, passed on unchanged. */
const asIs = z.unknown().optional();
const text = z
  .string()
  .nullish()
  .transform((value) => value ?? undefined);

const containers = listOf(
  z.object({
    restartPolicy: text,
    ports: listOf(z.object({ name: text, containerPort: z.number(), protocol: text })),
  }),
);

const pod = z.object({
  metadata: z.object({ namespace: z.string(), name: z.string(), labels: asIs, creationTimestamp: text }),
  spec: z.object({
    nodeName: text,
    hostNetwork: z
      .boolean()
      .nullish()
      .transform((value) => value ?? undefined),
    containers,
    initContainers: containers,
  }),
  status: z
    .object({ phase: text, podIPs: listOf(z.object({ ip: text })) })
    .nullish()
    .transform((value) => ({
      phase: value?.phase ?? 'Pending',
      podIPs: (value?.podIPs ?? []).filter(({ ip }) => ip).map(({ ip }) => ({ ip: ip ?? '' })),
    })),
});

const node = z.object({
  metadata: z.object({ name: z.string(), labels: asIs }),
  spec: z
    .object({ podCIDRs: listOf(z.string()) })
    .nullish()
    .transform((value) => value ?? {}),
  status: z
    .object({ addresses: listOf(z.object({ type: z.string(), address: z.string() })) })
    .nullish()
    .transform((value) => value ?? { addresses: [] }),
});

/** The only annotation that policies read. */
const annotations = z
  .object({ 'seine.dev/denied': text })
  .nullish()
  .transform((value) => value ?? undefined);
const namespace = z.object({ metadata: z.object({ name: z.string(), labels: asIs, annotations }) });
const clusterNetworkPolicy = z.object({
  metadata: z.object({ name: z.string(), creationTimestamp: text, annotations }),
  spec: z.unknown(),
});
const networkPolicy = z.object({ metadata: z.object({ namespace: z.string(), name: z.string() }), spec: z.unknown() });

function evidenceOf<S extends z.ZodType>(kind: string, path: string, schema: S): Omit<Resource<z.output<S>>, 'revision'> {
  return { kind, path, project: (raw) => parseObject(schema, raw) };
}

/** Lists of the cluster in the order in which they are read: pods last, for they change most. */
export const policyEvidence = {
  networkPolicies: evidenceOf('NetworkPolicy', '/apis/networking.k8s.io/v1/networkpolicies', networkPolicy),
  namespaces: evidenceOf('Namespace', '/api/v1/namespaces', namespace),
  nodes: evidenceOf('Node', '/api/v1/nodes', node),
  // Pods that have ended do not matter to policy, and may be most of the cluster's pods.
  pods: { ...evidenceOf('Pod', '/api/v1/pods', pod), fieldSelector: 'status.phase!=Succeeded,status.phase!=Failed' },
} as const;

/** ClusterNetworkPolicies, which a cluster may not serve (`clusterPolicyListApi`). */
export const clusterPolicyEvidence = evidenceOf(
  'ClusterNetworkPolicy',
  '/apis/policy.networking.k8s.io/v1beta1/clusternetworkpolicies',
  clusterNetworkPolicy,
);
