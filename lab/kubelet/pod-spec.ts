import { z } from 'zod';
import type { UnstructuredObject } from '../kube/kube-api.ts';

const port = z.looseObject({
  name: z.string().optional(),
  containerPort: z.int().min(1).max(65535),
  hostPort: z.int().min(1).max(65535).optional(),
  hostIP: z.string().optional(),
  protocol: z.enum(['TCP', 'UDP', 'SCTP']).default('TCP'),
});

const probe = z.looseObject({
  exec: z.looseObject({ command: z.array(z.string()) }).optional(),
  tcpSocket: z.looseObject({ port: z.union([z.int(), z.string()]) }).optional(),
  periodSeconds: z.number().min(0.1).default(1),
  timeoutSeconds: z.number().min(0.1).default(1),
  initialDelaySeconds: z.number().min(0).default(0),
});

const lifecycle = z.looseObject({
  preStop: z.looseObject({ sleep: z.looseObject({ seconds: z.number().min(0) }).optional() }).optional(),
});

const container = z.looseObject({
  name: z.string(),
  image: z.string().default('none'),
  command: z.array(z.string()).optional(),
  args: z.array(z.string()).default([]),
  env: z.array(z.looseObject({ name: z.string(), value: z.string().default('') })).default([]),
  ports: z.array(port).default([]),
  readinessProbe: probe.optional(),
  lifecycle: lifecycle.optional(),
});

const pod = z.looseObject({
  metadata: z.looseObject({
    name: z.string(),
    namespace: z.string(),
    uid: z.string(),
    deletionTimestamp: z.string().optional(),
    deletionGracePeriodSeconds: z.number().optional(),
    annotations: z.record(z.string(), z.string()).optional(),
  }),
  spec: z.looseObject({
    nodeName: z.string().optional(),
    hostNetwork: z.boolean().default(false),
    restartPolicy: z.enum(['Always', 'OnFailure', 'Never']).default('Always'),
    terminationGracePeriodSeconds: z.number().default(30),
    containers: z.array(container).min(1),
  }),
});

export type ContainerSpec = z.infer<typeof container>;
export type ProbeSpec = z.infer<typeof probe>;
export type RestartPolicy = 'Always' | 'OnFailure' | 'Never';

/** Fields of a pod that the lab's kubelet uses. */
export interface PodSpec {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** Grace period in seconds; set once it is being deleted. */
  readonly deletionGraceSeconds?: number;
  readonly hostNetwork: boolean;
  readonly restartPolicy: RestartPolicy;
  readonly containers: readonly ContainerSpec[];
  readonly annotations: Readonly<Record<string, string>>;
}

/** Undefined if this kubelet cannot run it. */
export function parsePod(object: UnstructuredObject): PodSpec | undefined {
  const { data } = pod.safeParse(object);
  if (data === undefined) return undefined;
  const { metadata, spec } = data;
  return {
    namespace: metadata.namespace,
    name: metadata.name,
    uid: metadata.uid,
    ...(metadata.deletionTimestamp !== undefined && {
      deletionGraceSeconds: metadata.deletionGracePeriodSeconds ?? spec.terminationGracePeriodSeconds,
    }),
    hostNetwork: spec.hostNetwork,
    restartPolicy: spec.restartPolicy,
    containers: spec.containers,
    annotations: metadata.annotations ?? {},
  };
}
