import { LoopTurns } from '../../base/async/loop-turns.ts';
import type { KubeHttp } from '../../kubernetes/client/http-client.ts';
import { listObjects } from '../../kubernetes/client/reflector/object-list.ts';
import { clusterPolicyListApi } from '../../kubernetes/resources/cluster-policy-api.ts';
import { clusterPolicyEvidence, policyEvidence } from '../../kubernetes/resources/policy-evidence.ts';
import { servedObjects } from '../../kubernetes/resources/served-objects.ts';
import type { ForwardedObjects, ServedObject, SliceObject } from '../../policy/verify/forwarding-reference/forwarded-objects.ts';
import type {
  ClusterNetworkPolicyObject,
  NamespaceObject,
  NetworkPolicyObject,
  NodeObject,
  PodObject,
} from '../../policy/verify/reference/objects.ts';

type ListedKind = keyof ForwardedObjects;

/** Time of the event loop between two turns (ms). */
const SLICE_MS = 10;

/**
 * Reads every object that decides about packets, with the user's rights.
 *
 * @param onRefused called for a list that cannot be read, which is empty then; absent: that is an error
 * @throws SeineError like `listObjects`
 */
export async function readClusterObjects(
  http: KubeHttp,
  signal: AbortSignal,
  onRefused?: (kind: ListedKind, thrown: unknown) => void,
): Promise<ForwardedObjects> {
  const reading = { http, turns: new LoopTurns(SLICE_MS) };
  const optional = { ...reading, http: clusterPolicyListApi(http) };
  const list = async (kind: ListedKind): Promise<unknown[]> => {
    const all: unknown[] = [];
    try {
      const [options, resource] =
        kind === 'clusterNetworkPolicies' ? [optional, clusterPolicyEvidence] : [reading, { ...policyEvidence, ...servedObjects }[kind]];
      for await (const object of listObjects<unknown>(options, resource, signal)) all.push(object);
    } catch (thrown) {
      if (!onRefused) throw thrown;
      onRefused(kind, thrown);
      return [];
    }
    return all;
  };
  return {
    clusterNetworkPolicies: (await list('clusterNetworkPolicies')) as ClusterNetworkPolicyObject[],
    networkPolicies: (await list('networkPolicies')) as NetworkPolicyObject[],
    namespaces: (await list('namespaces')) as NamespaceObject[],
    nodes: (await list('nodes')) as NodeObject[],
    services: (await list('services')) as ServedObject[],
    slices: (await list('slices')) as SliceObject[],
    // Last, for they change most.
    pods: (await list('pods')) as PodObject[],
  };
}
