import * as z from 'zod';
import { SeineError } from '../../base/errors/seine-error.ts';
import { type KubeHttp, segment } from '../client/http-client.ts';
import { ipText, listOf, logAnnotation, ownValue, parseObject, type Resource, stringMap } from '../client/resource.ts';
import { namedPorts, portedContainers } from './named-ports.ts';

/** Pod, with the properties that the agent of its own node needs. Addresses are canonical text. */
export interface Pod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** Absent until the Pod is scheduled. */
  readonly nodeName?: string;
  readonly podIps: readonly string[];
  readonly hostNetwork: boolean;
  readonly labels: Readonly<Record<string, string>>;
  /** See `PolicyPod`. */
  readonly ports: Readonly<Record<string, number>>;
  readonly phase: 'Pending' | 'Running' | 'Succeeded' | 'Failed' | 'Unknown';
  readonly deleting: boolean;
  /**
   * Annotation `kubernetes.io/config.hash`: kubelet's UID of a pod that it did not get from the API server. The object is that pod's mirror
   * then, and has its own UID.
   */
  readonly configHash?: string;
  /**
   * Present if an annotation of CNI's plugin `bandwidth` limits it (`kubernetes.io/ingress-bandwidth`, `kubernetes.io/egress-bandwidth`).
   */
  readonly bandwidth?: true;
  /** See `Namespace`. */
  readonly log?: string;
}

const schema = z.object({
  metadata: z.object({
    namespace: z.string(),
    name: z.string(),
    uid: z.string(),
    deletionTimestamp: z.string().nullish(),
    labels: stringMap,
    annotations: stringMap,
  }),
  spec: z.object({
    nodeName: z.string().nullish(),
    hostNetwork: z.boolean().nullish(),
    containers: portedContainers,
    initContainers: portedContainers,
  }),
  status: z
    .object({
      phase: z.enum(['Pending', 'Running', 'Succeeded', 'Failed', 'Unknown', '']).nullish(),
      podIP: ipText.or(z.literal('')).nullish(),
      podIPs: listOf(z.object({ ip: ipText.or(z.literal('')).nullish() })),
    })
    .nullish(),
});

/** Pods of one node. Watching those of all nodes is only for small clusters. */
export function podsOf(nodeName: string): Resource<Pod> {
  return { ...pods, fieldSelector: `spec.nodeName=${nodeName}` };
}

export const pods: Resource<Pod> = {
  kind: 'Pod',
  path: '/api/v1/pods',
  revision: 5,
  project: (raw) => {
    const { metadata, spec, status } = parseObject(schema, raw);
    const configHash = ownValue(metadata.annotations, 'kubernetes.io/config.hash');
    const podIps = (status?.podIPs ?? []).flatMap(({ ip }) => (ip ? [ip] : []));
    return {
      namespace: metadata.namespace,
      name: metadata.name,
      uid: metadata.uid,
      ...(spec.nodeName ? { nodeName: spec.nodeName } : {}),
      podIps: podIps.length === 0 && status?.podIP ? [status.podIP] : podIps,
      hostNetwork: spec.hostNetwork ?? false,
      labels: metadata.labels ?? {},
      ports: namedPorts(spec),
      phase: status?.phase || 'Pending',
      deleting: typeof metadata.deletionTimestamp === 'string',
      ...(configHash ? { configHash } : {}),
      ...(isLimited(metadata.annotations) ? { bandwidth: true as const } : {}),
      ...logAnnotation(metadata.annotations),
    };
  },
};

function isLimited(annotations: Parameters<typeof ownValue>[0]): boolean {
  return ['ingress', 'egress'].some((direction) => ownValue(annotations, `kubernetes.io/${direction}-bandwidth`) !== undefined);
}

/** Returns one Pod from the API server; undefined if there is none of that name. @throws SeineError like `KubeHttp` */
export async function fetchPod(http: KubeHttp, namespace: string, name: string, signal: AbortSignal): Promise<Pod | undefined> {
  const path = `/api/v1/namespaces/${segment(namespace)}/pods/${segment(name)}`;
  try {
    return pods.project(await http.json({ path }, signal));
  } catch (thrown) {
    if (thrown instanceof SeineError && thrown.context['status'] === 404) return undefined;
    throw thrown;
  }
}
