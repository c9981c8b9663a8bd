import * as z from 'zod';
import type { Family } from '../../base/net/ip.ts';
import {
  firstOf,
  ipText,
  listOf,
  networkListWithHostBits,
  ownValue,
  type Protocol,
  parseObject,
  portNumber,
  protocol,
  type RefusedNetwork,
  type Resource,
  stringMap,
} from '../client/resource.ts';

/** Service, with the API server's defaults filled in. Addresses and networks are canonical text. */
export interface Service {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** RFC 3339 in UTC, to the second: its order is that of time. Absent in objects that no API server has stored. */
  readonly createdAt?: string;
  readonly type: 'ClusterIP' | 'NodePort' | 'LoadBalancer' | 'ExternalName';
  /** Cluster addresses in the order of `ipFamilies`. Empty for a headless Service and for ExternalName. */
  readonly clusterIps: readonly string[];
  readonly ipFamilies: readonly Family[];
  readonly ports: readonly ServicePort[];
  /** Time for which a client keeps its endpoint (s); absent without `sessionAffinity: ClientIP`. */
  readonly affinitySeconds?: number;
  readonly externalTrafficPolicy: 'Cluster' | 'Local';
  readonly internalTrafficPolicy: 'Cluster' | 'Local';
  readonly externalIps: readonly string[];
  /** `status.loadBalancer.ingress` entries that have an address; `Proxy` means that traffic must not be short-cut. */
  readonly loadBalancerIngress: readonly { readonly ip: string; readonly ipMode: 'VIP' | 'Proxy' }[];
  /** Empty means all sources, if none was refused. */
  readonly loadBalancerSourceRanges: readonly string[];
  /** Other entries of `spec.loadBalancerSourceRanges`, which cannot be used; absent if none. */
  readonly refusedSourceRanges?: readonly RefusedNetwork[];
  /** Entries of `loadBalancerSourceRanges` that were written with host bits, which are cleared; absent if none. */
  readonly clearedSourceRanges?: readonly RefusedNetwork[];
  /** Lists that are longer than a Service's can be, one sentence each; absent if none. */
  readonly unread?: readonly string[];
  readonly healthCheckNodePort?: number;
  readonly publishNotReadyAddresses: boolean;
  readonly trafficDistribution?: string;
  /** Label `service.kubernetes.io/service-proxy-name`: another proxy's Service if present. */
  readonly proxyName?: string;
  /** True if the label `service.kubernetes.io/headless` is present: not to be proxied, with any addresses. */
  readonly headlessLabel: boolean;
}

export interface ServicePort {
  /** Empty for the single unnamed port. Matches the name of an EndpointSlice's port. */
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
  /** Number, or name of a port of the pods. */
  readonly targetPort: number | string;
  readonly nodePort?: number;
}

const DEFAULT_AFFINITY_SECONDS = 10_800;
/** Maximum number of elements read of each list of addresses: twice as many as are served in one family. */
const ADDRESSES_READ_MAX = 20_000;

/** Returns a defaulted field, which JSON may leave out or contain as null. */
function orElse<S extends z.ZodType, D extends z.output<S>>(schema: S, fallback: D) {
  return schema.nullish().transform((value) => value ?? fallback);
}

const policy = orElse(z.enum(['Cluster', 'Local']).or(z.literal('').transform(() => 'Cluster' as const)), 'Cluster');

const portSchema = z.object({
  name: orElse(z.string(), ''),
  protocol: orElse(protocol, 'TCP'),
  port: portNumber,
  targetPort: z.int().min(0).max(65_535).or(z.string()).nullish(),
  nodePort: z.int().min(0).max(65_535).nullish(),
});

const ingressSchema = z.object({ ip: ipText.or(z.literal('')).nullish(), ipMode: z.string().nullish() });

const schema = z.object({
  metadata: z.object({
    namespace: z.string(),
    name: z.string(),
    uid: z.string(),
    creationTimestamp: z.string().nullish(),
    labels: stringMap,
  }),
  spec: z.object({
    type: orElse(z.enum(['ClusterIP', 'NodePort', 'LoadBalancer', 'ExternalName']), 'ClusterIP'),
    clusterIP: z.string().nullish(),
    clusterIPs: listOf(z.literal(['None', '']).or(ipText)),
    ipFamilies: listOf(z.enum(['IPv4', 'IPv6'])),
    ports: listOf(portSchema),
    sessionAffinity: z.enum(['None', 'ClientIP', '']).nullish(),
    sessionAffinityConfig: z.object({ clientIP: z.object({ timeoutSeconds: z.int().min(1).max(86_400).nullish() }).nullish() }).nullish(),
    externalTrafficPolicy: policy,
    internalTrafficPolicy: policy,
    externalIPs: firstOf(listOf(ipText), ADDRESSES_READ_MAX),
    loadBalancerSourceRanges: firstOf(networkListWithHostBits, ADDRESSES_READ_MAX),
    healthCheckNodePort: z.int().min(0).max(65_535).nullish(),
    publishNotReadyAddresses: z.boolean().nullish(),
    trafficDistribution: z.string().nullish(),
  }),
  status: z
    .object({
      loadBalancer: z.object({ ingress: firstOf(listOf(ingressSchema), ADDRESSES_READ_MAX) }).nullish(),
    })
    .nullish(),
});

export const services: Resource<Service> = {
  kind: 'Service',
  path: '/api/v1/services',
  revision: 3,
  project: (raw) => {
    const { metadata, spec, status } = parseObject(schema, raw);
    const ranges = spec.loadBalancerSourceRanges.first;
    const unread = unreadOf({
      'spec.externalIPs': spec.externalIPs,
      'spec.loadBalancerSourceRanges': spec.loadBalancerSourceRanges,
      'status.loadBalancer.ingress': status?.loadBalancer?.ingress,
    });
    const clusterIps = spec.clusterIPs.filter((ip) => ip !== 'None' && ip !== '');
    const proxyName = ownValue(metadata.labels, 'service.kubernetes.io/service-proxy-name');
    return {
      namespace: metadata.namespace,
      name: metadata.name,
      uid: metadata.uid,
      ...(metadata.creationTimestamp ? { createdAt: metadata.creationTimestamp } : {}),
      type: spec.type,
      clusterIps: spec.type === 'ExternalName' ? [] : clusterIps,
      ipFamilies: familiesOf(spec.ipFamilies, clusterIps),
      ports: spec.ports.map(projectPort),
      ...(spec.sessionAffinity === 'ClientIP'
        ? { affinitySeconds: spec.sessionAffinityConfig?.clientIP?.timeoutSeconds ?? DEFAULT_AFFINITY_SECONDS }
        : {}),
      externalTrafficPolicy: spec.externalTrafficPolicy,
      internalTrafficPolicy: spec.internalTrafficPolicy,
      externalIps: spec.externalIPs.first,
      loadBalancerIngress: (status?.loadBalancer?.ingress.first ?? []).flatMap(({ ip, ipMode }) =>
        ip ? [{ ip, ipMode: ipMode === 'Proxy' ? ('Proxy' as const) : ('VIP' as const) }] : [],
      ),
      loadBalancerSourceRanges: ranges.cidrs,
      ...(ranges.refused.length > 0 ? { refusedSourceRanges: ranges.refused } : {}),
      ...(ranges.cleared ? { clearedSourceRanges: ranges.cleared } : {}),
      ...(unread.length > 0 ? { unread } : {}),
      ...(spec.healthCheckNodePort ? { healthCheckNodePort: spec.healthCheckNodePort } : {}),
      publishNotReadyAddresses: spec.publishNotReadyAddresses ?? false,
      ...(spec.trafficDistribution ? { trafficDistribution: spec.trafficDistribution } : {}),
      ...(proxyName === undefined ? {} : { proxyName }),
      headlessLabel: ownValue(metadata.labels, 'service.kubernetes.io/headless') !== undefined,
    };
  },
};

function unreadOf(lists: Readonly<Record<string, { readonly others: number } | undefined>>): readonly string[] {
  return Object.entries(lists).flatMap(([field, list]) =>
    list && list.others > 0
      ? [`${field}: ${list.others} of ${ADDRESSES_READ_MAX + list.others} are ignored: a Service has at most ${ADDRESSES_READ_MAX}`]
      : [],
  );
}

function projectPort({ name, protocol, port, targetPort, nodePort }: z.output<typeof portSchema>): ServicePort {
  return { name, protocol, port, targetPort: targetPort || port, ...(nodePort ? { nodePort } : {}) };
}

/** Returns the families. Servers without dual-stack send no `ipFamilies`; the addresses then determine them. */
function familiesOf(declared: readonly ('IPv4' | 'IPv6')[], clusterIps: readonly string[]): readonly Family[] {
  if (declared.length > 0) return declared.map((family) => (family === 'IPv6' ? 'ipv6' : 'ipv4'));
  return clusterIps.map((ip) => (ip.includes(':') ? 'ipv6' : 'ipv4'));
}
