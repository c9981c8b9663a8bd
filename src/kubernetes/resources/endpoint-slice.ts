import * as z from 'zod';
import type { Family } from '../../base/net/ip.ts';
import { type PackedEndpoints, packEndpoints, type SliceEndpoint } from '../../base/net/packed-endpoints.ts';
import {
  ipText,
  listOf,
  objectKey,
  ownValue,
  type Protocol,
  parseObject,
  portNumber,
  protocol,
  type Resource,
  stringMap,
} from '../client/resource.ts';

/** Some of the endpoints of one Service, all of one family. Addresses are canonical text. */
export interface EndpointSlice {
  readonly namespace: string;
  readonly name: string;
  /** Label `kubernetes.io/service-name`; absent means that the slice serves no Service. */
  readonly service?: string;
  readonly family: Family;
  readonly ports: readonly EndpointPort[];
  readonly endpoints: PackedEndpoints;
  /** Label `service.kubernetes.io/service-proxy-name`: another proxy's slice if present. */
  readonly proxyName?: string;
  /** True if the label `service.kubernetes.io/headless` is present, with any value: such a slice is only for DNS. */
  readonly headlessLabel?: true;
  /** Annotation `endpoints.kubernetes.io/last-change-trigger-time`: time of the change that caused the slice's (RFC 3339). */
  readonly triggeredAt?: string;
}

interface EndpointPort {
  /** Matches the name of the Service's port; empty for the unnamed one. */
  readonly name: string;
  readonly protocol: Protocol;
  /** Absent means "all ports", which no Service uses. */
  readonly port?: number;
}

const named = listOf(z.object({ name: z.string() }));

const endpointSchema = z.object({
  addresses: z.array(z.string()).min(1),
  conditions: z.object({ ready: z.boolean().nullish(), serving: z.boolean().nullish(), terminating: z.boolean().nullish() }).nullish(),
  nodeName: z.string().nullish(),
  zone: z.string().nullish(),
  hints: z.object({ forZones: named, forNodes: named }).nullish(),
});

const portSchema = z.object({ name: z.string().nullish(), protocol: protocol.nullish(), port: portNumber.nullish() });

const head = z.object({ addressType: z.enum(['IPv4', 'IPv6', 'FQDN']) });

const schema = z.object({
  metadata: z.object({ namespace: z.string(), name: z.string(), labels: stringMap, annotations: stringMap }),
  addressType: z.enum(['IPv4', 'IPv6']),
  ports: listOf(portSchema),
  endpoints: listOf(endpointSchema.extend({ addresses: z.array(ipText).min(1) })),
});

export const endpointSlices: Resource<EndpointSlice> = {
  kind: 'EndpointSlice',
  path: '/apis/discovery.k8s.io/v1/endpointslices',
  revision: 4,
  project: (raw) => {
    if (parseObject(head, raw).addressType === 'FQDN') return undefined;
    const { metadata, addressType, ports, endpoints } = parseObject(schema, raw);
    const service = ownValue(metadata.labels, 'kubernetes.io/service-name');
    const proxyName = ownValue(metadata.labels, 'service.kubernetes.io/service-proxy-name');
    const headless = ownValue(metadata.labels, 'service.kubernetes.io/headless') !== undefined;
    const triggeredAt = ownValue(metadata.annotations, 'endpoints.kubernetes.io/last-change-trigger-time');
    return {
      namespace: metadata.namespace,
      name: metadata.name,
      ...(service ? { service } : {}),
      family: addressType === 'IPv6' ? 'ipv6' : 'ipv4',
      ports: ports.map(({ name, protocol, port }) => ({ name: name ?? '', protocol: protocol ?? 'TCP', ...(port ? { port } : {}) })),
      endpoints: packEndpoints(endpoints.map(projectEndpoint)),
      ...(proxyName === undefined ? {} : { proxyName }),
      ...(headless ? { headlessLabel: true } : {}),
      ...(triggeredAt ? { triggeredAt } : {}),
    };
  },
};

/** Returns the key of the Service of a slice, as in the Service replica. */
export function serviceKeyOf(slice: EndpointSlice): string | undefined {
  return slice.service === undefined ? undefined : objectKey(slice.namespace, slice.service);
}

function projectEndpoint({ addresses, conditions, nodeName, zone, hints }: z.output<typeof endpointSchema>): SliceEndpoint {
  return {
    addresses,
    ready: conditions?.ready ?? true,
    serving: conditions?.serving ?? true,
    terminating: conditions?.terminating ?? false,
    ...(nodeName ? { nodeName } : {}),
    ...(zone ? { zone } : {}),
    ...(hints?.forZones.length ? { zoneHints: hints.forZones.map(({ name }) => name) } : {}),
    ...(hints?.forNodes.length ? { nodeHints: hints.forNodes.map(({ name }) => name) } : {}),
  };
}
