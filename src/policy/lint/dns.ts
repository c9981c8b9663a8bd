import { keyOf } from '../reach/objects.ts';
import type { NetworkPolicyObject, PodObject, PolicyPortObject } from '../verify/reference/objects.ts';
import { matches } from '../verify/reference/parties.ts';
import { typesOf } from '../verify/reference/reference-verdict.ts';
import type { LintFinding } from './findings.ts';
import { type CheckedPolicy, podsOfPeer, subjectsOf } from './matching.ts';
import { rulesOf } from './rules-of.ts';

const DNS_PORT = 53;

/**
 * P04: pods that policies isolate for egress, that may reach something, and that may not ask DNS. A pod that may reach nothing needs no names.
 * The finding is reported for the first such policy of a pod.
 */
export function dnsFindings(checked: CheckedPolicy): readonly LintFinding[] {
  const { policy, objects } = checked;
  const others = objects.networkPolicies.filter(
    (each) => each.metadata.namespace === policy.metadata.namespace && typesOf(each).includes('egress'),
  );
  if (!others.includes(policy)) return [];
  const isLacking = (pod: PodObject): boolean => {
    const own = others.filter(({ spec }) => matches(spec.podSelector, pod.metadata.labels ?? {}));
    const first = own.find(({ spec }) => (spec.egress ?? []).length > 0);
    return first === policy && !own.some((each) => allowsDns({ ...checked, policy: each }));
  };
  const lacking = subjectsOf(checked).filter(isLacking);
  const [pod] = lacking;
  if (!pod) return [];
  const more = lacking.length > 1 ? ` and ${lacking.length - 1} more` : '';
  return [
    {
      code: 'P04',
      level: 'warning',
      policy: keyOf(policy),
      field: 'spec.egress',
      message: `${keyOf(pod)}${more} may not ask DNS: no egress rule allows UDP port 53. Add a rule for the DNS pods.`,
    },
  ];
}

/** Reports whether a policy lets its pods ask a DNS server: the cluster's, if its pods are known, else any. */
function allowsDns(checked: CheckedPolicy): boolean {
  const servers = dnsServers(checked);
  return egressRules(checked.policy).some(({ rule, peers }) => {
    if (!allowsPort(rule.ports ?? [], servers)) return false;
    if (peers.length === 0) return true;
    // Where the servers are not among the objects, they are in another namespace, or the rule names their port.
    if (servers.length === 0) return (rule.ports ?? []).length > 0 || peers.some(({ peer }) => peer.ipBlock ?? peer.namespaceSelector);
    return peers.some(({ peer }) => peer.ipBlock !== undefined || podsOfPeer(checked, peer).some((pod) => servers.includes(pod)));
  });
}

function egressRules(policy: NetworkPolicyObject) {
  return rulesOf(policy).filter(({ direction }) => direction === 'egress');
}

function dnsServers({ pods }: CheckedPolicy): readonly PodObject[] {
  return (pods.get('kube-system') ?? []).filter(({ metadata }) => metadata.labels?.['k8s-app'] === 'kube-dns');
}

function allowsPort(ports: readonly PolicyPortObject[], servers: readonly PodObject[]): boolean {
  if (ports.length === 0) return true;
  return ports.some(({ protocol, port, endPort }) => {
    if (protocol !== 'UDP') return false;
    if (port === undefined) return true;
    if (typeof port === 'number') return port <= DNS_PORT && (endPort ?? port) >= DNS_PORT;
    return (
      servers.length === 0 ||
      servers.some(({ spec }) => spec.containers.some((each) => (each.ports ?? []).some(({ name }) => name === port)))
    );
  });
}
