import { verdictOfTier } from './cluster-verdict.ts';
import * as api from './objects.ts';
import { addressesOf, type End, holds, isEmpty, type JudgedConnection, matches, namedPort, whoHas } from './parties.ts';

interface Judgement {
  readonly verdict: 'allow' | 'deny';
  /** Result of the sending pod's policies; absent if the source is not a pod. */
  readonly egress?: EndJudgement;
  /** Result of the receiving pod's policies; absent if the destination is not a pod. */
  readonly ingress?: EndJudgement;
}

interface EndJudgement {
  readonly verdict: 'allow' | 'deny';
  readonly why:
    | 'itself'
    | 'own node'
    | 'a cluster rule allows it'
    | 'a cluster rule denies it'
    | 'not isolated'
    | 'a rule allows it'
    | 'no rule allows it';
  /** Policies that isolate the pod in this direction, `namespace/name`. */
  readonly isolatedBy: readonly string[];
  /** Rules that allow the connection, `namespace/name spec.ingress[2]`. */
  readonly allowedBy: readonly string[];
  /** Rule of a ClusterNetworkPolicy that decides, `name spec.ingress[2]`; absent if none does. */
  readonly decidedBy?: string;
  /** Answer to a denied client that a namespace or a policy states; absent if none does, or nothing is denied. */
  readonly answer?: 'reject' | 'drop';
}

/**
 * Evaluates whether policies allow a connection, by the text of the API: slow and without an index, for comparison.
 *
 * @throws SeineError `INVALID_INPUT` for an invalid address or network
 */
export function judge(
  objects: api.PolicyObjects,
  connection: JudgedConnection,
  { source, destination } = { source: whoHas(objects, connection.from), destination: whoHas(objects, connection.to) },
): Judgement {
  const egress =
    source.is === 'pod' &&
    verdictOfEnd(objects, connection, { direction: 'egress', subject: source.pod, peer: destination, address: connection.to, destination });
  const ingress =
    destination.is === 'pod' &&
    verdictOfEnd(objects, connection, {
      direction: 'ingress',
      subject: destination.pod,
      peer: source,
      address: connection.from,
      destination,
    });
  const denied = [egress, ingress].some((end) => end && end.verdict === 'deny');
  return { verdict: denied ? 'deny' : 'allow', ...(egress ? { egress } : {}), ...(ingress ? { ingress } : {}) };
}

function verdictOfEnd(objects: api.PolicyObjects, connection: JudgedConnection, end: End): EndJudgement {
  const { direction, subject } = end;
  const isolating = objects.networkPolicies.filter((policy) => isolates(policy, subject, direction));
  const isolatedBy = isolating.map(nameOf).toSorted();
  const allowedBy = isolating
    .flatMap((policy) =>
      (policy.spec[direction] ?? []).flatMap((rule, at) =>
        allows(objects, policy, rule, connection, end) ? [`${nameOf(policy)} spec.${direction}[${at}]`] : [],
      ),
    )
    .toSorted();
  const isItself = end.peer.is === 'pod' && end.peer.pod === subject;
  const always = alwaysAllowed(end, connection);
  if (always) return { verdict: 'allow', why: always, isolatedBy, allowedBy };
  const byTier = (tier: 'Admin' | 'Baseline'): EndJudgement | undefined => {
    const decided = verdictOfTier(objects, tier, connection, end);
    if (!decided || decided.action === 'Pass') return undefined;
    const isAllowed = decided.action === 'Accept';
    const why = isAllowed ? 'a cluster rule allows it' : 'a cluster rule denies it';
    const { rule: decidedBy, answer } = decided;
    return { verdict: isAllowed ? 'allow' : 'deny', why, isolatedBy, allowedBy, decidedBy, ...(answer && { answer }) };
  };
  // NetworkPolicies never apply to a pod that reaches itself.
  const own = isItself ? undefined : byNetworkPolicies(objects, subject, isolatedBy, allowedBy);
  return byTier('Admin') ?? own ?? byTier('Baseline') ?? freely(isolatedBy, allowedBy);
}

function byNetworkPolicies(
  { namespaces }: api.PolicyObjects,
  subject: api.PodObject,
  isolatedBy: readonly string[],
  allowedBy: readonly string[],
): EndJudgement | undefined {
  if (isolatedBy.length === 0) return undefined;
  if (allowedBy.length > 0) return { verdict: 'allow', why: 'a rule allows it', isolatedBy, allowedBy };
  const namespace = namespaces.find(({ metadata }) => metadata.name === subject.metadata.namespace);
  const answer = namespace && api.statedAnswer(namespace.metadata);
  return { verdict: 'deny', why: 'no rule allows it', isolatedBy, allowedBy, ...(answer && { answer }) };
}

function freely(isolatedBy: readonly string[], allowedBy: readonly string[]): EndJudgement {
  return { verdict: 'allow', why: 'not isolated', isolatedBy, allowedBy };
}

function alwaysAllowed(end: End, connection: JudgedConnection): 'itself' | 'own node' | undefined {
  if (end.peer.is === 'pod' && end.peer.pod === end.subject && !connection.throughService) return 'itself';
  return end.direction === 'ingress' && isOwnNode(end, connection) ? 'own node' : undefined;
}

/**
 * Reports whether the peer is the pod's own node, whose traffic always reaches the pod: probes of the kubelet, and pods with host network
 * there.
 */
function isOwnNode({ subject, peer }: End, { masqueraded = false }: JudgedConnection): boolean {
  return peer.is === 'node' && peer.node.metadata.name === subject.spec.nodeName && !masqueraded;
}

/** Reports whether a policy selects a pod, and isolates it in this direction. */
export function isolates(policy: api.NetworkPolicyObject, pod: api.PodObject, direction: End['direction']): boolean {
  return selects(policy, pod) && typesOf(policy).includes(direction);
}

/** "policyTypes … If this field is not specified, it will default based on the existence of ingress or egress rules". */
export function typesOf({ spec: { policyTypes, egress } }: api.NetworkPolicyObject): readonly string[] {
  if (policyTypes && policyTypes.length > 0) return policyTypes.map((type) => type.toLowerCase());
  return egress && egress.length > 0 ? ['ingress', 'egress'] : ['ingress'];
}

function selects({ metadata, spec }: api.NetworkPolicyObject, pod: api.PodObject): boolean {
  return pod.metadata.namespace === metadata.namespace && matches(spec.podSelector, pod.metadata.labels ?? {});
}

function allows(
  objects: api.PolicyObjects,
  policy: api.NetworkPolicyObject,
  rule: api.PolicyRuleObject,
  connection: JudgedConnection,
  end: End,
): boolean {
  const ports = rule.ports ?? [];
  const portIs = (peer: api.PolicyPeerObject | 'everybody'): boolean =>
    ports.length === 0 || ports.some((port) => isPort(port, connection, end, peer));
  const peers = (end.direction === 'ingress' ? rule.from : rule.to) ?? [];
  if (peers.length === 0) return portIs('everybody');
  return peers.some((peer) => isPeer(objects, policy, peer, end) && portIs(peer));
}

/** Reports whether an entry of `from` or `to` matches the other end. */
export function isPeer(
  objects: api.PolicyObjects,
  policy: api.NetworkPolicyObject,
  peer: api.PolicyPeerObject,
  end: Pick<End, 'direction' | 'peer' | 'address'>,
): boolean {
  const { podSelector, namespaceSelector, ipBlock } = peer;
  if (ipBlock) return addressesOf(end).some((address) => holds(ipBlock, address));
  if (!podSelector && !namespaceSelector) return false;
  const anyPod = namespaceSelector && isEmpty(namespaceSelector) && isEmpty(podSelector ?? {});
  if (end.peer.is === 'address of no pod') return anyPod === true;
  if (end.peer.is !== 'pod') return false;
  const { namespace, labels = {} } = end.peer.pod.metadata;
  if (podSelector && !matches(podSelector, labels)) return false;
  if (!namespaceSelector) return namespace === policy.metadata.namespace;
  const known = objects.namespaces.find(({ metadata }) => metadata.name === namespace);
  // No label of an unknown namespace is known, neither as present nor as absent.
  return known === undefined ? isEmpty(namespaceSelector) : matches(namespaceSelector, known.metadata.labels ?? {});
}

function isPort(
  port: api.PolicyPortObject,
  connection: JudgedConnection,
  { direction, destination }: End,
  peer: api.PolicyPeerObject | 'everybody',
): boolean {
  if ((port.protocol ?? 'TCP') !== connection.protocol) return false;
  if (port.port === undefined) return true;
  const { port: asked = -1 } = connection;
  if (typeof port.port === 'number') return asked >= port.port && asked <= (port.endPort ?? port.port);
  // Named ports belong to pods; a block of addresses has none.
  if (direction === 'egress' && peer !== 'everybody' && peer.ipBlock) return false;
  return destination.is === 'pod' && namedPort(destination.pod, port.port, connection.protocol) === asked;
}

function nameOf({ metadata }: { readonly metadata: { readonly namespace: string; readonly name: string } }): string {
  return `${metadata.namespace}/${metadata.name}`;
}
