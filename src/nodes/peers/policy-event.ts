import type { EventPoster } from '../../kubernetes/client/events.ts';
import type { Replica } from '../../kubernetes/client/replica/replica.ts';
import type { NetworkPolicy } from '../../kubernetes/resources/network-policy.ts';
import type { PeerSource } from '../../kubernetes/resources/peer-source.ts';
import { isReportingNode } from '../../kubernetes/resources/reporting-node.ts';

interface PolicyNoticeOptions {
  readonly policies: Pick<Replica<NetworkPolicy>, 'get' | 'entries' | 'subscribe'>;
  readonly peers: Pick<PeerSource, 'peers'>;
  readonly nodeName: string;
  readonly events: Pick<EventPoster, 'post'>;
}

const message = 'what Seine cannot read of a NetworkPolicy allows nothing';

/**
 * Reports to the owner of each NetworkPolicy the parts that could not be read. One node posts the event for each policy, chosen by a hash
 * of both names, so that a large cluster does not write one event per node.
 */
export function followPolicies({ policies, peers, nodeName, events }: PolicyNoticeOptions): () => void {
  const notice = (key: string): void => {
    const policy = policies.get(key);
    if (!policy?.faults || !isReportingNode(policy.uid, nodeName, peers)) return;
    const about = {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'NetworkPolicy',
      namespace: policy.namespace,
      name: policy.name,
      uid: policy.uid,
    };
    events.post({
      type: 'Warning',
      reason: 'NotUnderstood',
      message: `${message}: ${policy.faults.join('; ')}`,
      about,
      occasion: String(policy.generation),
    });
  };
  for (const [key] of policies.entries()) notice(key);
  return policies.subscribe((keys) => {
    for (const key of keys) notice(key);
  });
}
