import * as z from 'zod';
import { ipText, listOf, parseObject, type Resource } from './resource.ts';

/** A Pod, as the agent of its own node needs it. Addresses are canonical text. */
export interface Pod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** Absent until the Pod is scheduled. */
  readonly nodeName?: string;
  readonly podIps: readonly string[];
  readonly hostNetwork: boolean;
  readonly phase: 'Pending' | 'Running' | 'Succeeded' | 'Failed' | 'Unknown';
  readonly deleting: boolean;
}

const schema = z.object({
  metadata: z.object({ namespace: z.string(), name: z.string(), uid: z.string(), deletionTimestamp: z.string().nullish() }),
  spec: z.object({ nodeName: z.string().nullish(), hostNetwork: z.boolean().nullish() }),
  status: z
    .object({
      phase: z.enum(['Pending', 'Running', 'Succeeded', 'Failed', 'Unknown', '']).nullish(),
      podIP: ipText.or(z.literal('')).nullish(),
      podIPs: listOf(z.object({ ip: ipText.or(z.literal('')).nullish() })),
    })
    .nullish(),
});

/** The Pods of one node. Watching those of all nodes is for small clusters only. */
export function podsOf(nodeName: string): Resource<Pod> {
  return { ...pods, fieldSelector: `spec.nodeName=${nodeName}` };
}

export const pods: Resource<Pod> = {
  kind: 'Pod',
  path: '/api/v1/pods',
  revision: 1,
  project: (raw) => {
    const { metadata, spec, status } = parseObject(schema, raw);
    const podIps = (status?.podIPs ?? []).flatMap(({ ip }) => (ip ? [ip] : []));
    return {
      namespace: metadata.namespace,
      name: metadata.name,
      uid: metadata.uid,
      ...(spec.nodeName ? { nodeName: spec.nodeName } : {}),
      podIps: podIps.length === 0 && status?.podIP ? [status.podIP] : podIps,
      hostNetwork: spec.hostNetwork ?? false,
      phase: status?.phase || 'Pending',
      deleting: typeof metadata.deletionTimestamp === 'string',
    };
  },
};
