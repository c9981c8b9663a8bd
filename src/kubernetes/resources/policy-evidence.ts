import * as z from 'zod';
import { listOf, parseObject, type Resource } from '../client/resource.ts';

/*
 * What policies are about, as the API server has it: members that no policy looks at are left out, and nothing is understood. Whoever proves
 * what the agent makes of policies must not read them with the agent's eyes, so these have nothing in common with the watched projections.
 */

/** Labels and whole specifications are passed on as they came. */
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
      podIPs: (value?.podIPs ?? []).flatMap(({ ip }) => (ip ? [{ ip }] : [])),
    })),
});

const node = z.object({
  metadata: z.object({ name: z.string() }),
  spec: z
    .object({ podCIDRs: listOf(z.string()) })
    .nullish()
    .transform((value) => value ?? {}),
  status: z
    .object({ addresses: listOf(z.object({ type: z.string(), address: z.string() })) })
    .nullish()
    .transform((value) => value ?? { addresses: [] }),
});

const namespace = z.object({ metadata: z.object({ name: z.string(), labels: asIs }) });
const networkPolicy = z.object({ metadata: z.object({ namespace: z.string(), name: z.string() }), spec: z.unknown() });

function evidenceOf<S extends z.ZodType>(kind: string, path: string, schema: S): Omit<Resource<z.output<S>>, 'revision'> {
  return { kind, path, project: (raw) => parseObject(schema, raw) };
}

/** Lists of the cluster in the order in which they are read: pods last, for they change most. */
export const policyEvidence = {
  networkPolicies: evidenceOf('NetworkPolicy', '/apis/networking.k8s.io/v1/networkpolicies', networkPolicy),
  namespaces: evidenceOf('Namespace', '/api/v1/namespaces', namespace),
  nodes: evidenceOf('Node', '/api/v1/nodes', node),
  // What ended is nobody, and may be most of the cluster's pods.
  pods: { ...evidenceOf('Pod', '/api/v1/pods', pod), fieldSelector: 'status.phase!=Succeeded,status.phase!=Failed' },
} as const;
