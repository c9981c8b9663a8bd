import type { EventPoster } from '../kube/events.ts';
import type { NetworkPolicy } from '../kube/network-policy.ts';
import type { PeerSource } from '../kube/peer-source.ts';
import type { Replica } from '../kube/replica.ts';
import { isReportingNode } from '../kube/reporting-node.ts';

interface PolicyNoticeOptions {
  readonly policies: Replica<NetworkPolicy>;
  readonly peers: PeerSource;
  readonly nodeName: string;
  readonly events: EventPoster;
}

const message = 'NetworkPolicy is not enforced by this version of Seine: all traffic that it would restrict is allowed';

/**
 * Tells the owner of each NetworkPolicy that it is not in force. One node speaks for each policy, chosen by a hash of both
 * names, so that a large cluster does not write one event a node.
 */
export function followPolicies({ policies, peers, nodeName, events }: PolicyNoticeOptions): () => void {
  const notice = (key: string): void => {
    const policy = policies.get(key);
    if (!policy || !isReportingNode(policy.uid, nodeName, peers)) return;
    const about = {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'NetworkPolicy',
      namespace: policy.namespace,
      name: policy.name,
      uid: policy.uid,
    };
    events.post({ type: 'Warning', reason: 'NotEnforced', message, about, occasion: String(policy.generation) });
  };
  for (const [key] of policies.entries()) notice(key);
  return policies.subscribe((keys) => {
    for (const key of keys) notice(key);
  });
}
