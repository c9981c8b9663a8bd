import { cidrAddress, cidrContains, cidrOf, parseCidr, parseIp } from '../../../base/net/ip.ts';
import type * as api from './objects.ts';

/** Packet that opens a connection. For a connection to a Service, the destination is the endpoint. */
export interface JudgedConnection {
  /** Addresses, in any notation. */
  readonly from: string;
  readonly to: string;
  /** Protocol. `TCP`, `UDP` and `SCTP` have ports; others (`ICMP`, `GRE`, …) have none. */
  readonly protocol: string;
  /** Destination port. */
  readonly port?: number;
  /** True if nftables on the node masqueraded the source address, which is the node's: the sender is an external client. */
  readonly masqueraded?: boolean;
}

interface Judgement {
  readonly verdict: 'allow' | 'deny';
  /** Result of the sending pod's policies; absent if the source is not a pod. */
  readonly egress?: EndJudgement;
  /** Result of the receiving pod's policies; absent if the destination is not a pod. */
  readonly ingress?: EndJudgement;
}

interface EndJudgement {
  readonly verdict: 'allow' | 'deny';
  readonly why: 'itself' | 'own node' | 'not isolated' | 'a rule allows it' | 'no rule allows it';
  /** Policies that isolate the pod in this direction, `namespace/name`. */
  readonly isolatedBy: readonly string[];
  /** Rules that allow the connection, `namespace/name spec.ingress[2]`. */
  readonly allowedBy: readonly string[];
}

/** Owner of an address. `pod of nobody`: the address is in a pod network, and no known pod or node has it. */
type Party =
  | { readonly is: 'pod'; readonly pod: api.PodObject }
  | { readonly is: 'node'; readonly node: api.NodeObject }
  | { readonly is: 'pod of nobody' }
  | { readonly is: 'world' };

interface End {
  readonly direction: 'ingress' | 'egress';
  readonly subject: api.PodObject;
  readonly peer: Party;
  /** Address of the other end. */
  readonly address: string;
  /** Receiver of the connection, by which named ports are resolved. */
  readonly destination: Party;
}

/**
 * Evaluates whether NetworkPolicy allows a connection, by the text of the API: slow and without an index, for comparison.
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
    judgeEnd(objects, connection, { direction: 'egress', subject: source.pod, peer: destination, address: connection.to, destination });
  const ingress =
    destination.is === 'pod' &&
    judgeEnd(objects, connection, { direction: 'ingress', subject: destination.pod, peer: source, address: connection.from, destination });
  const denied = [egress, ingress].some((end) => end && end.verdict === 'deny');
  return { verdict: denied ? 'deny' : 'allow', ...(egress ? { egress } : {}), ...(ingress ? { ingress } : {}) };
}

function judgeEnd(objects: api.PolicyObjects, connection: JudgedConnection, end: End): EndJudgement {
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
  const why = reasonOf(end, connection, isolating.length > 0, allowedBy.length > 0);
  return { verdict: why === 'no rule allows it' ? 'deny' : 'allow', why, isolatedBy, allowedBy };
}

function reasonOf(end: End, connection: JudgedConnection, isIsolated: boolean, isAllowed: boolean): EndJudgement['why'] {
  if (end.peer.is === 'pod' && end.peer.pod === end.subject) return 'itself';
  if (end.direction === 'ingress' && isOwnNode(end, connection)) return 'own node';
  if (!isIsolated) return 'not isolated';
  return isAllowed ? 'a rule allows it' : 'no rule allows it';
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
function typesOf({ spec: { policyTypes, egress } }: api.NetworkPolicyObject): readonly string[] {
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
  if (end.peer.is === 'pod of nobody') return anyPod === true;
  if (end.peer.is !== 'pod') return false;
  const { namespace, labels = {} } = end.peer.pod.metadata;
  if (podSelector && !matches(podSelector, labels)) return false;
  if (!namespaceSelector) return namespace === policy.metadata.namespace;
  const known = objects.namespaces.find(({ metadata }) => metadata.name === namespace);
  // No label of an unknown namespace is known, neither as present nor as absent.
  return known === undefined ? isEmpty(namespaceSelector) : matches(namespaceSelector, known.metadata.labels ?? {});
}

/**
 * Returns the addresses of the other end. If it is a node's address within the pod network, the node's other addresses are included: a
 * block of node addresses means both.
 */
function addressesOf({ address, peer }: Pick<End, 'address' | 'peer'>): readonly string[] {
  const { family, text } = parseIp(address);
  if (peer.is !== 'node' || !gatewaysOf(peer.node).includes(text)) return [address];
  const others = peer.node.status.addresses.flatMap((each) => (isAddress(each) ? [each.address] : []));
  return [address, ...others.filter((other) => parseIp(other).family === family)];
}

function holds({ cidr, except }: NonNullable<api.PolicyPeerObject['ipBlock']>, address: string): boolean {
  const isIn = (network: string): boolean => cidrContains(parseCidr(network), parseIp(address));
  return isIn(cidr) && !(except ?? []).some(isIn);
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

/** Resolves a named port as a Service does: the first container with a port of that name and protocol, then the first sidecar. */
export function namedPort({ spec }: api.PodObject, name: string, protocol: string): number | undefined {
  const sidecars = (spec.initContainers ?? []).filter(({ restartPolicy }) => restartPolicy === 'Always');
  const ports = [...spec.containers, ...sidecars].flatMap((container: api.ContainerObject) => container.ports ?? []);
  return ports.find((each) => each.name === name && (each.protocol ?? 'TCP') === protocol)?.containerPort;
}

function isEmpty({ matchLabels = {}, matchExpressions = [] }: api.LabelSelectorObject): boolean {
  return Object.keys(matchLabels).length === 0 && matchExpressions.length === 0;
}

/** Reports whether labels match a selector. */
export function matches(
  { matchLabels = {}, matchExpressions = [] }: api.LabelSelectorObject,
  labels: Readonly<Record<string, string>>,
): boolean {
  const labelOf = (key: string): string | undefined => (Object.hasOwn(labels, key) ? labels[key] : undefined);
  return (
    Object.entries(matchLabels).every(([key, value]) => labelOf(key) === value) &&
    matchExpressions.every(({ key, operator, values = [] }) => {
      const value = labelOf(key);
      if (operator === 'In' || operator === 'NotIn') return (value !== undefined && values.includes(value)) === (operator === 'In');
      return (value !== undefined) === (operator === 'Exists');
    })
  );
}

/**
 * Returns the owner of an address: a running pod with a network of its own, else a node, else a possible pod in a pod network, else an
 * external host.
 */
export function whoHas(objects: api.PolicyObjects, address: string): Party {
  const { text } = parseIp(address);
  const pod = podsWith(objects, text)[0];
  if (pod) return { is: 'pod', pod };
  const node = objects.nodes.find(
    (each) => gatewaysOf(each).includes(text) || each.status.addresses.some((one) => isAddress(one) && parseIp(one.address).text === text),
  );
  if (node) return { is: 'node', node };
  return { is: objects.nodes.some((each) => isInNetworkOf(each, text)) ? 'pod of nobody' : 'world' };
}

/** Returns the pods with an address. If there are several, the one whose node has the network comes first, then the younger one. */
function podsWith({ pods, nodes }: api.PolicyObjects, address: string): readonly api.PodObject[] {
  const isAtHome = ({ spec }: api.PodObject): boolean =>
    nodes.some((node) => node.metadata.name === spec.nodeName && isInNetworkOf(node, address));
  const rank = (pod: api.PodObject): string => `${isAtHome(pod) ? 1 : 0} ${pod.metadata.creationTimestamp ?? ''}`;
  return pods
    .filter(({ spec, status }) => spec.hostNetwork !== true && status.phase !== 'Succeeded' && status.phase !== 'Failed')
    .filter(({ status }) => (status.podIPs ?? []).some(({ ip }) => parseIp(ip).text === address))
    .toSorted((a, b) => (rank(a) === rank(b) ? (nameOf(a) < nameOf(b) ? -1 : 1) : rank(a) > rank(b) ? -1 : 1));
}

/**
 * Returns two addresses of each pod network: the first one, which is the source of external traffic forwarded to another node, and the
 * gateway.
 */
function gatewaysOf({ spec }: api.NodeObject): readonly string[] {
  return (spec.podCIDRs ?? []).map(parseCidr).flatMap((cidr) => {
    const second = cidr.prefixLength < (cidr.family === 'ipv4' ? 32 : 128) ? [cidrAddress(cidr, 1n).text] : [];
    return [cidrOf(cidr.network, cidr.prefixLength).network.text, ...second];
  });
}

function isInNetworkOf({ spec }: api.NodeObject, address: string): boolean {
  return (spec.podCIDRs ?? []).some((cidr) => cidrContains(parseCidr(cidr), parseIp(address)));
}

/** Reports whether a node address is an IP address; other types are names. */
function isAddress({ type }: { readonly type: string }): boolean {
  return type === 'InternalIP' || type === 'ExternalIP';
}

function nameOf({ metadata }: { readonly metadata: { readonly namespace: string; readonly name: string } }): string {
  return `${metadata.namespace}/${metadata.name}`;
}
