import * as z from 'zod';
import { parseObject, type Resource } from './resource.ts';

/** That a NetworkPolicy exists, and which generation of it: enough to say that it is not enforced. */
export interface NetworkPolicy {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly generation: number;
}

const schema = z.object({
  metadata: z.object({ namespace: z.string(), name: z.string(), uid: z.string(), generation: z.int().nullish() }),
});

export const networkPolicies: Resource<NetworkPolicy> = {
  kind: 'NetworkPolicy',
  path: '/apis/networking.k8s.io/v1/networkpolicies',
  revision: 1,
  project: (raw) => {
    const { namespace, name, uid, generation } = parseObject(schema, raw).metadata;
    return { namespace, name, uid, generation: generation ?? 0 };
  },
};
