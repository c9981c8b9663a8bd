import * as z from 'zod';
import { ipText, listOf, parseObject, type Resource, stringMap } from '../client/resource.ts';
import { namedPorts, portedContainers } from './named-ports.ts';

/** Pod of the cluster, as the other end of a policy or as its subject. Addresses are canonical text. */
export interface PolicyPod {
  readonly namespace: string;
  readonly name: string;
  readonly nodeName?: string;
  /** RFC 3339 in UTC, to the second: its order is that of time. */
  readonly createdAt?: string;
  readonly podIps: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
  /** Ports by name and protocol, `http/TCP`: of several containers the first that has it, then of sidecars. */
  readonly ports: Readonly<Record<string, number>>;
}

const schema = z.object({
  metadata: z.object({ namespace: z.string(), name: z.string(), labels: stringMap, creationTimestamp: z.string().nullish() }),
  spec: z.object({
    nodeName: z.string().nullish(),
    hostNetwork: z.boolean().nullish(),
    containers: portedContainers,
    initContainers: portedContainers,
  }),
  status: z
    .object({
      phase: z.string().nullish(),
      podIP: ipText.or(z.literal('')).nullish(),
      podIPs: listOf(z.object({ ip: ipText.or(z.literal('')).nullish() })),
    })
    .nullish(),
});

/**
 * Pods for policy, without those that have ended or use the host network. The kind is not the API's: a node's own Pods are another copy.
 */
export const policyPods: Resource<PolicyPod> = {
  kind: 'PolicyPod',
  path: '/api/v1/pods',
  fieldSelector: 'spec.hostNetwork=false,status.phase!=Succeeded,status.phase!=Failed',
  revision: 1,
  project: (raw) => {
    const { metadata, spec, status } = parseObject(schema, raw);
    if (spec.hostNetwork || status?.phase === 'Succeeded' || status?.phase === 'Failed') return undefined;
    // Of its exact length: the array that `flatMap` returns has room for more, in each of 150,000 pods.
    const podIps = (status?.podIPs ?? []).filter(({ ip }) => ip).map(({ ip }) => ip ?? '');
    return {
      namespace: metadata.namespace,
      name: metadata.name,
      ...(spec.nodeName ? { nodeName: spec.nodeName } : {}),
      ...(metadata.creationTimestamp ? { createdAt: metadata.creationTimestamp } : {}),
      podIps: podIps.length === 0 && status?.podIP ? [status.podIP] : podIps,
      labels: metadata.labels ?? {},
      ports: namedPorts(spec),
    };
  },
};
