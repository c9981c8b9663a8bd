import * as api from './objects.ts';
import { addressesOf, type End, holds, isEmpty, type JudgedConnection, matches, namedPort } from './parties.ts';

/** Rule of a ClusterNetworkPolicy that matches first in a tier, and its effect. */
interface TierJudgement {
  readonly action: 'Accept' | 'Deny' | 'Pass';
  /** `name spec.ingress[2]`. */
  readonly rule: string;
  /** Answer that the policy states for what it denies; absent if it states none, or the other end is not known. */
  readonly answer?: 'reject' | 'drop';
}

/** Result of matching a peer. `unknown`: it selects by labels, and the labels of the other end are not known. */
type PeerMatch = 'yes' | 'no' | 'unknown';

/**
 * Evaluates one tier of ClusterNetworkPolicies for one end: policies by priority, then age, then name; rules by their order.
 *
 * @returns undefined if no rule matches
 */
export function verdictOfTier(
  objects: api.PolicyObjects,
  tier: 'Admin' | 'Baseline',
  connection: JudgedConnection,
  end: End,
): TierJudgement | undefined {
  for (const { metadata, spec } of policiesOf(objects, tier, end))
    for (const [at, rule] of (spec[end.direction] ?? []).entries()) {
      const action = effectOf(objects, rule, connection, end);
      if (!action) continue;
      const isOfUnknown = connection.unknownPeers !== 'open' && mayBeUnknown(objects, rule, end);
      const answer = action === 'Deny' && !isOfUnknown ? api.statedAnswer(metadata) : undefined;
      return { action, rule: `${metadata.name} spec.${end.direction}[${at}]`, ...(answer && { answer }) };
    }
  return undefined;
}

/** Reports whether a rule that can be read may deny because the labels, or the named ports, of the other end are not known. */
function mayBeUnknown(objects: api.PolicyObjects, { action, from, to, protocols = [] }: api.ClusterRuleObject, end: End): boolean {
  const peers = (end.direction === 'ingress' ? from : to) ?? [];
  if (!peers.every((peer) => isReadablePeer(peer, end.direction))) return false;
  // With an entry that cannot be read, a rule is about every port, whatever name a port has.
  const named = protocols.every(isReadableProtocol) ? protocols : [];
  return peers.some(
    (peer) =>
      isClusterPeer(objects, peer, end, action) === 'unknown' || named.some((protocol) => mayBeNamed(objects, protocol, end, peer, action)),
  );
}

function policiesOf(
  { clusterNetworkPolicies = [], namespaces }: api.PolicyObjects,
  tier: 'Admin' | 'Baseline',
  { subject }: End,
): readonly api.ClusterNetworkPolicyObject[] {
  const rank = ({ metadata, spec }: api.ClusterNetworkPolicyObject): readonly (string | number)[] => [
    spec.priority,
    metadata.creationTimestamp ?? '',
    metadata.name,
  ];
  return clusterNetworkPolicies
    .filter(({ spec }) => spec.tier === tier && selectsPod(namespaces, spec.subject, subject, 'Accept') === 'yes')
    .toSorted((a, b) => compareRanks(rank(a), rank(b)));
}

function compareRanks(a: readonly (string | number)[], b: readonly (string | number)[]): number {
  const at = a.findIndex((part, place) => part !== b[place]);
  return at < 0 ? 0 : (a[at] ?? 0) < (b[at] ?? 0) ? -1 : 1;
}

/** Returns the effect of a rule on a connection; undefined if it does not match. What cannot be read or is not known fails closed. */
function effectOf(
  objects: api.PolicyObjects,
  rule: api.ClusterRuleObject,
  connection: JudgedConnection,
  end: End,
): TierJudgement['action'] | undefined {
  const { action, from, to, protocols } = rule;
  const peers = (end.direction === 'ingress' ? from : to) ?? [];
  if (!peers.every((peer) => isReadablePeer(peer, end.direction))) return action === 'Accept' ? undefined : 'Deny';
  const readable = protocols?.filter(isReadableProtocol);
  const areReadable = readable?.length === protocols?.length;
  let effect: TierJudgement['action'] | undefined;
  // Accept never matches what is not known.
  const asAction = connection.unknownPeers === 'open' ? 'Accept' : action;
  for (const peer of peers) {
    const match = isClusterPeer(objects, peer, end, asAction);
    if (match === 'no' || (match === 'unknown' && asAction === 'Accept')) continue;
    if (!areReadable && action !== 'Accept') return 'Deny';
    const fits =
      !readable ||
      readable.some((protocol) => isProtocol(protocol, connection, end, peer) || mayBeNamed(objects, protocol, end, peer, asAction));
    if (!fits) continue;
    const isNamed = readable?.some((protocol) => mayBeNamed(objects, protocol, end, peer, asAction));
    if (match === 'unknown' || isNamed) return 'Deny';
    effect = action;
  }
  return effect;
}

const podPeers = ['namespaces', 'pods'];

function isReadablePeer(peer: api.ClusterPeerObject, direction: End['direction']): boolean {
  const known = direction === 'ingress' ? podPeers : [...podPeers, 'networks', 'nodes'];
  const fields = Object.keys(peer);
  return fields.length === 1 && fields.every((field) => known.includes(field));
}

function isReadableProtocol(protocol: api.ClusterProtocolObject): boolean {
  const fields = Object.keys(protocol);
  return fields.length === 1 && fields.every((field) => ['tcp', 'udp', 'sctp', 'destinationNamedPort'].includes(field));
}

/** Reports whether an entry of `from` or `to` matches the other end. */
export function isClusterPeer(
  { namespaces }: Pick<api.PolicyObjects, 'namespaces'>,
  peer: api.ClusterPeerObject,
  end: Pick<End, 'peer' | 'address'>,
  action: TierJudgement['action'],
): PeerMatch {
  const { networks, nodes } = peer;
  if (networks) {
    const addresses = addressesOf(end);
    return networks.some((cidr) => addresses.some((address) => holds({ cidr }, address))) ? 'yes' : 'no';
  }
  if (nodes) return end.peer.is === 'node' && matches(nodes, end.peer.node.metadata.labels ?? {}) ? 'yes' : 'no';
  if (end.peer.is === 'pod') return selectsPod(namespaces, peer, end.peer.pod, action);
  if (end.peer.is !== 'address of no pod') return 'no';
  const { namespaceSelector, podSelector } = selectorsOf(peer);
  return isEmpty(namespaceSelector) && isEmpty(podSelector) ? 'yes' : 'unknown';
}

function selectorsOf({ namespaces = {}, pods }: api.ClusterPodsObject) {
  return pods ?? { namespaceSelector: namespaces, podSelector: {} };
}

/** No label of an unknown namespace is known. Such a pod may be one that is to be denied, and never one that is to be accepted. */
function selectsPod(
  namespaces: api.PolicyObjects['namespaces'],
  selected: api.ClusterPodsObject,
  pod: api.PodObject,
  action: TierJudgement['action'],
): PeerMatch {
  if (!selected.namespaces && !selected.pods) return 'no';
  const { namespaceSelector, podSelector } = selectorsOf(selected);
  const { namespace, labels = {} } = pod.metadata;
  const known = namespaces.find(({ metadata }) => metadata.name === namespace);
  const isLabelled = !isEmpty(namespaceSelector) || !isEmpty(podSelector);
  if (!known && isLabelled && action !== 'Accept') return 'unknown';
  const isNamespace = known ? matches(namespaceSelector, known.metadata.labels ?? {}) : isEmpty(namespaceSelector);
  return isNamespace && matches(podSelector, labels) ? 'yes' : 'no';
}

function isProtocol(
  { tcp, udp, sctp, destinationNamedPort }: api.ClusterProtocolObject,
  connection: JudgedConnection,
  end: End,
  peer: api.ClusterPeerObject,
): boolean {
  if (destinationNamedPort !== undefined) return isNamedPort(destinationNamedPort, connection, end, peer);
  const transport = { TCP: tcp, UDP: udp, SCTP: sctp }[connection.protocol];
  if (!transport) return false;
  if (!transport.destinationPort) return true;
  const { number = 0, range = { start: number, end: number } } = transport.destinationPort;
  const { port = -1 } = connection;
  return port >= range.start && port <= range.end;
}

/** Named ports belong to pods; networks and nodes have none. The protocol is that of the container port. */
function isNamedPort(
  name: string,
  { protocol, port }: JudgedConnection,
  { direction, destination }: End,
  { networks, nodes }: api.ClusterPeerObject,
): boolean {
  if (direction === 'egress' && (networks || nodes)) return false;
  return destination.is === 'pod' && port !== undefined && namedPort(destination.pod, name, protocol) === port;
}

/** Reports whether a rule that denies or passes names a port of a peer that is not known. */
function mayBeNamed(
  { namespaces }: api.PolicyObjects,
  { destinationNamedPort }: api.ClusterProtocolObject,
  { direction, destination }: End,
  { networks, nodes }: api.ClusterPeerObject,
  action: TierJudgement['action'],
): boolean {
  if (direction !== 'egress' || destinationNamedPort === undefined || networks || nodes || action === 'Accept') return false;
  if (destination.is !== 'pod') return destination.is === 'address of no pod';
  return !namespaces.some(({ metadata }) => metadata.name === destination.pod.metadata.namespace);
}
