import type { EventPoster } from '../../kubernetes/client/events.ts';
import type { Replica } from '../../kubernetes/client/replica/replica.ts';
import type { ClusterNetworkPolicy } from '../../kubernetes/resources/cluster-network-policy.ts';
import { deniedAnnotation, deniedValues } from '../../kubernetes/resources/denied-annotation.ts';
import type { Namespace } from '../../kubernetes/resources/namespace.ts';
import type { NetworkPolicy } from '../../kubernetes/resources/network-policy.ts';
import type { PeerSource } from '../../kubernetes/resources/peer-source.ts';
import { isReportingNode } from '../../kubernetes/resources/reporting-node.ts';

interface NoticedPolicy {
  readonly uid: string;
  readonly name: string;
  readonly generation: number;
  readonly faults?: readonly string[];
}

interface NoticeOptions {
  readonly peers: Pick<PeerSource, 'peers'>;
  readonly nodeName: string;
  readonly events: Pick<EventPoster, 'post'>;
}

interface PolicyNoticeOptions<P extends NoticedPolicy> extends NoticeOptions {
  readonly policies: Source<P>;
}

type Source<T> = Pick<Replica<T>, 'get' | 'entries' | 'subscribe'>;

/** Reports to the owner of each NetworkPolicy the parts that could not be read. */
export function followPolicies(options: PolicyNoticeOptions<NetworkPolicy>): () => void {
  const message = 'what Seine cannot read of a NetworkPolicy allows nothing';
  return follow(options, message, ({ namespace }) => ({ apiVersion: 'networking.k8s.io/v1', kind: 'NetworkPolicy', namespace }));
}

/** The same for ClusterNetworkPolicies. */
export function followClusterPolicies(options: PolicyNoticeOptions<ClusterNetworkPolicy>): () => void {
  const message = 'rules of a ClusterNetworkPolicy that Seine cannot read fail closed: Accept matches nothing, Deny and Pass deny';
  return follow(options, message, () => ({ apiVersion: 'policy.networking.k8s.io/v1beta1', kind: 'ClusterNetworkPolicy', namespace: '' }));
}

/**
 * Posts an event for each policy with faults. One node posts it, chosen by a hash of both names, so that a large cluster does not write one
 * event per node.
 */
function follow<P extends NoticedPolicy>(
  { policies, peers, nodeName, events }: PolicyNoticeOptions<P>,
  message: string,
  kindOf: (policy: P) => { readonly apiVersion: string; readonly kind: string; readonly namespace: string },
): () => void {
  const notice = (key: string): void => {
    const policy = policies.get(key);
    if (!policy?.faults || !isReportingNode(policy.uid, nodeName, peers)) return;
    events.post({
      type: 'Warning',
      reason: 'NotUnderstood',
      message: `${message}: ${policy.faults.join('; ')}`,
      about: { ...kindOf(policy), name: policy.name, uid: policy.uid },
      occasion: String(policy.generation),
    });
  };
  return eachOf(policies, notice);
}

/** Posts an event for each Namespace whose annotation states an answer to denied clients that does not exist; one node posts it. */
export function followNamespaces(options: NoticeOptions & { readonly namespaces: Source<Namespace> }): () => void {
  const { namespaces, peers, nodeName, events } = options;
  return eachOf(namespaces, (key) => {
    const invalid = namespaces.get(key)?.invalidDenied;
    if (!invalid || !isReportingNode(invalid.uid, nodeName, peers)) return;
    const { text, uid } = invalid;
    events.post({
      type: 'Warning',
      reason: 'DeniedAnswerInvalid',
      message: `annotation ${deniedAnnotation} is ${JSON.stringify(text)}, which is not one of ${deniedValues.join(', ')}: it is ignored`,
      about: { apiVersion: 'v1', kind: 'Namespace', namespace: '', name: key, uid },
      occasion: text,
    });
  });
}

function eachOf<T>(source: Source<T>, notice: (key: string) => void): () => void {
  for (const [key] of source.entries()) notice(key);
  return source.subscribe((keys) => {
    for (const key of keys) notice(key);
  });
}
