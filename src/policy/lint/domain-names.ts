import { verdictOfTier } from '../verify/reference/cluster-verdict.ts';
import type { ClusterNetworkPolicyObject, PodObject } from '../verify/reference/objects.ts';
import { judge } from '../verify/reference/reference-verdict.ts';
import { connectionOf, type LintedEnd, type LintedEnds } from './ends.ts';
import type { LintFinding } from './findings.ts';

const https = { protocol: 'TCP', port: 443 } as const;
const dns = { protocol: 'UDP', port: 53 } as const;

/**
 * P05: rules that accept names, for pods that reach every external address anyway, or that may not ask DNS. A name opens nothing where no rule
 * denies the rest, and cannot be learned without an answer of DNS.
 */
export function domainNameFindings(ends: LintedEnds): readonly LintFinding[] {
  return (ends.objects.clusterNetworkPolicies ?? []).flatMap((policy) => {
    const at = (policy.spec.egress ?? []).findIndex(({ to }) => (to ?? []).some(({ domainNames }) => domainNames !== undefined));
    if (at < 0) return [];
    const own = [...ends.of('egress', policy.metadata.name)];
    return [...undeniedFinding(ends, policy, at, own), ...unaskedFinding(ends, policy, at, own)];
  });
}

function undeniedFinding(
  ends: LintedEnds,
  policy: ClusterNetworkPolicyObject,
  at: number,
  own: readonly LintedEnd[],
): readonly LintFinding[] {
  const outside = own.filter(({ peer }) => peer.is === 'outside');
  const denied = outside.filter((end) => !isAllowed(ends, end, https));
  if (outside.length === 0 || denied.length > 0) return [];
  return [
    finding(policy, at, 'Its pods reach every external address without it: no rule below denies the rest. Add a Deny rule for networks.'),
  ];
}

function unaskedFinding(
  ends: LintedEnds,
  policy: ClusterNetworkPolicyObject,
  at: number,
  own: readonly LintedEnd[],
): readonly LintFinding[] {
  const servers = own.filter(({ peer }) => peer.is === 'pod' && isDnsServer(peer.pod));
  if (servers.length === 0 || servers.some((end) => isAllowed(ends, end, dns))) return [];
  return [
    finding(
      policy,
      at,
      'Its pods may not ask DNS, so no address of a name is learned. Add an Accept rule for UDP port 53 of the DNS pods.',
    ),
  ];
}

function isDnsServer({ metadata }: PodObject): boolean {
  return metadata.namespace === 'kube-system' && metadata.labels?.['k8s-app'] === 'kube-dns';
}

/** Reports whether the pod's own end allows a connection. */
function isAllowed({ objects }: LintedEnds, end: LintedEnd, port: typeof https | typeof dns): boolean {
  const connection = connectionOf(end, port);
  const sides = { source: { is: 'pod', pod: end.end.subject } as const, destination: end.end.peer };
  if (verdictOfTier(objects, 'Admin', connection, end.end)?.action === 'Accept') return true;
  return judge(objects, connection, sides).egress?.verdict === 'allow';
}

function finding({ metadata }: ClusterNetworkPolicyObject, at: number, message: string): LintFinding {
  return { code: 'P05', level: 'warning', policy: metadata.name, field: `spec.egress[${at}]`, message };
}
