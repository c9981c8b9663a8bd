import * as z from 'zod';
import { listOf, parseObject } from '../../kubernetes/client/resource.ts';
import type { PodObject, PolicyObjects } from '../verify/reference/objects.ts';

/** Objects of a cluster that decide which connections are allowed, as the API has them. */
export interface ReachObjects extends PolicyObjects {
  readonly services: readonly ServiceObject[];
}

const service = z.object({
  metadata: z.object({ namespace: z.string(), name: z.string() }),
  spec: z.object({
    /** Absent: endpoints are written by hand, and are not known here. */
    selector: z.record(z.string(), z.string()).nullish(),
    type: z.string().nullish(),
    externalTrafficPolicy: z.string().nullish(),
    ports: listOf(
      z.object({
        name: z.string().nullish(),
        protocol: z.string().nullish(),
        port: z.number(),
        targetPort: z.number().or(z.string()).nullish(),
      }),
    ),
  }),
});

/** Service (core/v1) with the fields that name its endpoints. */
export type ServiceObject = z.output<typeof service>;

/** List of Services of the API, as `policyEvidence` has the other kinds. */
export const services = {
  kind: 'Service',
  path: '/api/v1/services',
  project: (raw: unknown): ServiceObject => parseObject(service, raw),
} as const;

/** Returns `namespace/name`. */
export function keyOf({ metadata }: { readonly metadata: { readonly namespace: string; readonly name: string } }): string {
  return `${metadata.namespace}/${metadata.name}`;
}

/** Reports whether policies can apply to a pod: it has a network of its own, and has not ended. */
export function isPoliced({ spec, status }: PodObject): boolean {
  return spec.hostNetwork !== true && status.phase !== 'Succeeded' && status.phase !== 'Failed';
}
