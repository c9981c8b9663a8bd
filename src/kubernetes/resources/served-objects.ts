import * as z from 'zod';
import { listOf, parseObject } from '../client/resource.ts';

/*
 * Objects that Services consist of, as the API server has them: members that no compiler and no reference reads are left out, and nothing is
 * interpreted. Each reader interprets them in its own way.
 */

/** Passed on unchanged. */
const asIs = z.unknown().optional();

const service = z.object({
  metadata: z.object({ namespace: z.string(), name: z.string(), uid: asIs, creationTimestamp: asIs, labels: asIs }),
  spec: z.unknown(),
  status: z.object({ loadBalancer: asIs }).nullish(),
});

/** Without `targetRef`, `hostname` and other members that are half of a slice's length. */
const endpoint = z.object({ addresses: z.array(z.string()), conditions: asIs, nodeName: asIs, zone: asIs, hints: asIs });
const slice = z.object({
  metadata: z.object({ namespace: z.string(), name: z.string(), labels: asIs }),
  addressType: z.string(),
  ports: asIs,
  endpoints: listOf(endpoint),
});

const configMap = z.object({ metadata: z.object({ namespace: z.string(), name: z.string() }), data: asIs });

/** Lists in the order in which they are read: EndpointSlices last, for they change most. */
export const servedObjects = {
  services: { kind: 'Service', path: '/api/v1/services', project: (raw: unknown) => parseObject(service, raw) },
  slices: { kind: 'EndpointSlice', path: '/apis/discovery.k8s.io/v1/endpointslices', project: (raw: unknown) => parseObject(slice, raw) },
} as const;

/** ConfigMap with settings of all nodes; agents may read no other. */
export const liveSettingsObject = {
  kind: 'ConfigMap',
  path: '/api/v1/namespaces/seine-system/configmaps',
  fieldSelector: 'metadata.name=seine-live',
  project: (raw: unknown) => parseObject(configMap, raw),
} as const;
