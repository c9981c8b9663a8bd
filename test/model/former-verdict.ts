import type { PodObject, PolicyObjects } from '../../src/policy/verify/reference/objects.ts';
import { type End, holds, type JudgedConnection, matches, namedPort, whoHas } from '../../src/policy/verify/reference/parties.ts';
import { judge } from '../../src/policy/verify/reference/reference-verdict.ts';
import type {
  AdminPeerObject,
  AdminPodsObject,
  AdminPortObject,
  AdminRuleObject,
  AntreaPolicyObject,
  AntreaPort,
  AntreaRuleObject,
  AntreaSelection,
  FormerPolicies,
} from './former-policies.ts';

/*
 * Evaluates AdminNetworkPolicies and Antrea's policies by the text of their APIs, together with the NetworkPolicies of a cluster. It uses no
 * code of the conversion. Not evaluated: names, Services, service accounts, ICMP types, source ports; such an entry matches nothing.
 */

type Effect = 'Allow' | 'Deny' | 'Pass';

/** Rule with its place in the order of a tier: the first that matches decides. */
interface PlacedRule {
  readonly tier: number;
  readonly priority: number;
  readonly matches: () => boolean;
  readonly action: string;
}

interface Situation {
  readonly cluster: PolicyObjects;
  readonly former: FormerPolicies;
  readonly connection: JudgedConnection;
  readonly end: End;
}

const staticTiers: Readonly<Record<string, number>> = {
  emergency: 50,
  securityops: 100,
  networkops: 150,
  platform: 200,
  application: 250,
  baseline: 253,
};
const adminTier = 251;
const baselineAdminTier = 254;
const lastBeforeNetworkPolicies = 252;

/** Returns the verdict of all policies about a connection, both of its ends considered. */
export function evaluateFormer(cluster: PolicyObjects, former: FormerPolicies, connection: JudgedConnection): 'allow' | 'deny' {
  const [source, destination] = [whoHas(cluster, connection.from), whoHas(cluster, connection.to)];
  const standard = judge({ ...cluster, clusterNetworkPolicies: [] }, connection);
  const ends: (readonly [End, typeof standard.egress])[] = [];
  if (source.is === 'pod')
    ends.push([{ direction: 'egress', subject: source.pod, peer: destination, address: connection.to, destination }, standard.egress]);
  if (destination.is === 'pod')
    ends.push([{ direction: 'ingress', subject: destination.pod, peer: source, address: connection.from, destination }, standard.ingress]);
  const isAllowed = ends.every(([end, byNetworkPolicies]) => {
    if (byNetworkPolicies?.why === 'itself' || byNetworkPolicies?.why === 'own node') return true;
    const situation = { cluster, former, connection, end };
    const rules = rulesAbout(situation).toSorted((a, b) => a.tier - b.tier || a.priority - b.priority);
    const before = firstEffect(rules.filter(({ tier }) => tier <= lastBeforeNetworkPolicies));
    if (before && before !== 'Pass') return before === 'Allow';
    if ((byNetworkPolicies?.isolatedBy.length ?? 0) > 0) return byNetworkPolicies?.verdict === 'allow';
    return firstEffect(rules.filter(({ tier }) => tier > lastBeforeNetworkPolicies)) !== 'Deny';
  });
  return isAllowed ? 'allow' : 'deny';
}

function firstEffect(rules: readonly PlacedRule[]): Effect | undefined {
  const first = rules.find((rule) => rule.matches());
  if (!first) return undefined;
  return first.action === 'Allow' || first.action === 'Pass' ? first.action : 'Deny';
}

function rulesAbout(situation: Situation): readonly PlacedRule[] {
  const { former, end } = situation;
  const admin = former.admin.flatMap(({ kind, spec }) =>
    (spec[end.direction] ?? []).map((rule) => ({
      tier: kind === 'AdminNetworkPolicy' ? adminTier : baselineAdminTier,
      priority: spec.priority ?? 0,
      action: rule.action,
      matches: () => selectsPod(situation, spec.subject, end.subject) && isAdminRule(situation, rule),
    })),
  );
  const antrea = former.antrea.flatMap((policy) =>
    (policy.spec[end.direction] ?? []).map((rule) => ({
      tier: tierOf(former, policy),
      priority: policy.spec.priority,
      action: rule.action,
      matches: () => isSubject(situation, policy, rule) && isAntreaRule(situation, policy, rule),
    })),
  );
  return [...admin, ...antrea];
}

function tierOf({ tiers }: FormerPolicies, { spec: { tier = 'application' } }: AntreaPolicyObject): number {
  return tiers.find(({ metadata }) => metadata.name === tier)?.spec.priority ?? staticTiers[tier.toLowerCase()] ?? Number.NaN;
}

function labelsOfNamespace({ cluster }: Situation, name: string): Readonly<Record<string, string>> {
  return cluster.namespaces.find(({ metadata }) => metadata.name === name)?.metadata.labels ?? {};
}

function selectsPod(situation: Situation, { namespaces, pods }: AdminPodsObject, pod: PodObject): boolean {
  const ofNamespace = labelsOfNamespace(situation, pod.metadata.namespace);
  if (namespaces) return matches(namespaces, ofNamespace);
  return pods !== undefined && matches(pods.namespaceSelector, ofNamespace) && matches(pods.podSelector, pod.metadata.labels ?? {});
}

function isAdminRule(situation: Situation, rule: AdminRuleObject): boolean {
  const peers = (situation.end.direction === 'ingress' ? rule.from : rule.to) ?? [];
  return peers.some(
    (peer) => isAdminPeer(situation, peer) && (rule.ports ?? [undefined]).some((port) => isAdminPort(situation, peer, port)),
  );
}

function isAdminPeer(situation: Situation, peer: AdminPeerObject): boolean {
  const { end } = situation;
  if (peer.networks) return peer.networks.some((cidr) => holds({ cidr }, end.address));
  if (peer.nodes) return end.peer.is === 'node' && matches(peer.nodes, end.peer.node.metadata.labels ?? {});
  return end.peer.is === 'pod' && selectsPod(situation, peer, end.peer.pod);
}

function isAdminPort({ connection, end }: Situation, peer: AdminPeerObject, port: AdminPortObject | undefined): boolean {
  if (!port) return true;
  if (port.namedPort !== undefined) {
    if (end.direction === 'egress' && (peer.networks || peer.nodes)) return false;
    return (
      end.destination.is === 'pod' &&
      connection.port !== undefined &&
      namedPort(end.destination.pod, port.namedPort, connection.protocol) === connection.port
    );
  }
  const { protocol = 'TCP' } = port.portNumber ?? port.portRange ?? {};
  const [first, last] = port.portNumber ? [port.portNumber.port, port.portNumber.port] : [port.portRange?.start, port.portRange?.end];
  const { port: asked = -1 } = connection;
  return protocol === connection.protocol && first !== undefined && last !== undefined && asked >= first && asked <= last;
}

function isSubject(situation: Situation, policy: AntreaPolicyObject, rule: AntreaRuleObject): boolean {
  const selections = policy.spec.appliedTo ?? rule.appliedTo ?? [];
  return selections.some((selection) => selectsAntreaPod(situation, policy, selection, situation.end.subject));
}

/** A namespaced policy means pods of its own namespace, a cluster's policy those of all namespaces, unless it selects namespaces. */
function selectsAntreaPod(situation: Situation, policy: AntreaPolicyObject, selection: AntreaSelection, pod: PodObject): boolean {
  const { podSelector, namespaceSelector, group } = selection;
  if (group !== undefined) return isInGroup(situation, policy.metadata.namespace, group, { pod, address: undefined });
  if (selection.namespaces) {
    const isOwn = pod.metadata.namespace === situation.end.subject.metadata.namespace;
    return selection.namespaces.match === 'Self' && isOwn && matches(podSelector ?? {}, pod.metadata.labels ?? {});
  }
  if (!podSelector && !namespaceSelector) return false;
  return selectsByLabels(situation, policy.metadata.namespace, selection, pod);
}

function selectsByLabels(
  situation: Situation,
  own: string | undefined,
  { podSelector, namespaceSelector }: Pick<AntreaSelection, 'podSelector' | 'namespaceSelector'>,
  { metadata: { namespace, labels = {} } }: PodObject,
): boolean {
  const isNamespace = namespaceSelector
    ? matches(namespaceSelector, labelsOfNamespace(situation, namespace))
    : own === undefined || own === namespace;
  return isNamespace && matches(podSelector ?? {}, labels);
}

/** @param own namespace of a Group; undefined for a ClusterGroup */
function isInGroup(
  situation: Situation,
  own: string | undefined,
  name: string,
  who: { readonly pod: PodObject | undefined; readonly address: string | undefined },
): boolean {
  const group = situation.former.groups.find(({ metadata }) => metadata.name === name && metadata.namespace === own);
  if (!group) return false;
  const { podSelector, namespaceSelector, ipBlocks = [], childGroups = [] } = group.spec;
  if (childGroups.some((child) => isInGroup(situation, own, child, who))) return true;
  if (who.address !== undefined && ipBlocks.some((block) => holds(block, who.address ?? ''))) return true;
  return (podSelector ?? namespaceSelector) !== undefined && who.pod !== undefined && selectsByLabels(situation, own, group.spec, who.pod);
}

function isAntreaRule(situation: Situation, policy: AntreaPolicyObject, rule: AntreaRuleObject): boolean {
  const peers = (situation.end.direction === 'ingress' ? rule.from : rule.to) ?? [];
  const [ports, protocols] = [rule.ports ?? [], rule.protocols ?? []];
  const isEveryPort = ports.length === 0 && protocols.length === 0;
  const isPort = (isBlock: boolean): boolean => isEveryPort || ports.some((port) => isAntreaPort(situation, port, isBlock));
  if (peers.length === 0) return isPort(false);
  return peers.some((peer) => {
    const [byPod, byAddress] = antreaPeerMatch(situation, policy, peer);
    return (byPod && isPort(false)) || (byAddress && isPort(true));
  });
}

/** Reports whether a peer matches the other end as a pod, and whether by its address. */
function antreaPeerMatch(situation: Situation, policy: AntreaPolicyObject, peer: AntreaSelection): readonly [boolean, boolean] {
  const { end } = situation;
  const pod = end.peer.is === 'pod' ? end.peer.pod : undefined;
  if (peer.scope === 'ClusterSet' || peer.fqdn !== undefined) return [false, false];
  if (peer.ipBlock) return [false, holds(peer.ipBlock, end.address)];
  if (peer.nodeSelector) return [false, end.peer.is === 'node' && matches(peer.nodeSelector, end.peer.node.metadata.labels ?? {})];
  if (peer.group !== undefined)
    return [
      isInGroup(situation, policy.metadata.namespace, peer.group, { pod, address: undefined }),
      isInGroup(situation, policy.metadata.namespace, peer.group, { pod: undefined, address: end.address }),
    ];
  return [pod !== undefined && selectsAntreaPod(situation, policy, peer, pod), false];
}

/** A named port is one of a pod; networks and nodes have none. */
function isAntreaPort(
  { connection, end }: Situation,
  { protocol = 'TCP', port, endPort, sourcePort }: AntreaPort,
  isBlock: boolean,
): boolean {
  if (protocol !== connection.protocol || sourcePort !== undefined) return false;
  if (port === undefined) return true;
  const { port: asked = -1 } = connection;
  if (typeof port === 'number') return asked >= port && asked <= (endPort ?? port);
  if (end.direction === 'egress' && isBlock) return false;
  return end.destination.is === 'pod' && namedPort(end.destination.pod, port, protocol) === asked;
}
