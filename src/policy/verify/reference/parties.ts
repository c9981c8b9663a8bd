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
  /** True if the destination is an endpoint of the Service that the client asked. It matters for a pod that reaches itself. */
  readonly throughService?: boolean;
  /** `open`: rules that deny or pass by labels do not match pods whose labels are not known. Default: such rules deny them. */
  readonly unknownPeers?: 'closed' | 'open';
}

/** Owner of an address. `address of no pod`: the address is in a pod network, and no known pod or node has it. */
type Party =
  | { readonly is: 'pod'; readonly pod: api.PodObject }
  | { readonly is: 'node'; readonly node: api.NodeObject }
  | { readonly is: 'address of no pod' }
  | { readonly is: 'external' };

export interface End {
  readonly direction: 'ingress' | 'egress';
  readonly subject: api.PodObject;
  readonly peer: Party;
  /** Address of the other end. */
  readonly address: string;
  /** Receiver of the connection, by which named ports are resolved. */
  readonly destination: Party;
}

/**
 * Returns the addresses of the other end. If it is a node's address within the pod network, the node's other addresses are included: a
 * block of node addresses means both.
 */
export function addressesOf({ address, peer }: Pick<End, 'address' | 'peer'>): readonly string[] {
  const { family, text } = parseIp(address);
  if (peer.is !== 'node' || !gatewaysOf(peer.node).includes(text)) return [address];
  const others = peer.node.status.addresses.flatMap((each) => (isAddress(each) ? [each.address] : []));
  return [address, ...others.filter((other) => parseIp(other).family === family)];
}

export function holds({ cidr, except }: NonNullable<api.PolicyPeerObject['ipBlock']>, address: string): boolean {
  const isIn = (network: string): boolean => cidrContains(parseCidr(network), parseIp(address));
  return isIn(cidr) && !(except ?? []).some(isIn);
}

/** Resolves a named port as a Service does: the first container with a port of that name and protocol, then the first sidecar. */
export function namedPort({ spec }: api.PodObject, name: string, protocol: string): number | undefined {
  const sidecars = (spec.initContainers ?? []).filter(({ restartPolicy }) => restartPolicy === 'Always');
  const ports = [...spec.containers, ...sidecars].flatMap((container: api.ContainerObject) => container.ports ?? []);
  return ports.find((each) => each.name === name && (each.protocol ?? 'TCP') === protocol)?.containerPort;
}

export function isEmpty({ matchLabels = {}, matchExpressions = [] }: api.LabelSelectorObject): boolean {
  return Object.keys(matchLabels).length === 0 && matchExpressions.length === 0;
}

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
  return { is: objects.nodes.some((each) => isInNetworkOf(each, text)) ? 'address of no pod' : 'external' };
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

/** Returns all addresses of a node, those in its pod networks first. */
export function addressesOfNode(node: api.NodeObject): readonly string[] {
  return [...gatewaysOf(node), ...node.status.addresses.filter(isAddress).map(({ address }) => address)];
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
