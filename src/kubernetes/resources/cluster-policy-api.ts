import type { KubeHttp } from '../client/http-client.ts';
import { OptionalApi } from '../client/optional-api.ts';
import { clusterPolicyGroup } from './cluster-network-policy.ts';

/** Requests to a cluster that may not serve ClusterNetworkPolicies, or in another version; for a reader that follows them. */
export function clusterPolicyApi(http: Pick<KubeHttp, 'stream' | 'json'>): OptionalApi {
  return new OptionalApi({ http, ...clusterPolicyGroup });
}

/** The same for a reader that lists them once: it has no objects that a short absence could remove. */
export function clusterPolicyListApi(http: Pick<KubeHttp, 'stream' | 'json'>): OptionalApi {
  return new OptionalApi({ http, ...clusterPolicyGroup, confirmAfterMs: 0 });
}
