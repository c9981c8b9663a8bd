import { type Cidr, cidrContains, ipFromValue, parseCidr, parseIp } from '../../base/net/ip.ts';
import { isPoliced, keyOf } from '../../policy/reach/objects.ts';
import type { NodeObject, PodObject } from '../../policy/verify/reference/objects.ts';
import type { SimulatedObjects } from './cluster-objects.ts';

/** Networks from which pods of manifests have addresses until they are placed (`fromManifests`). */
const madeUpNetworks = [parseCidr('198.18.0.0/15'), parseCidr('2001:2::/48')];
/** First pod networks and node addresses for clusters whose manifests have none: private ones (RFC 1918, RFC 4193). */
const firstPodNetworks = [parseCidr('10.244.0.0/24'), parseCidr('fd00:244::/64')];
const firstNodeAddresses = [parseIp('192.168.77.1'), parseIp('fd00:77::1')];
const madeUpNodes = ['node-1', 'node-2'];

/**
 * Places pods on nodes as a cluster would: nodes of manifests get pod networks, pods without a node get one in turns, and pods without an address
 * of a cluster get one in their node's network. Everything happens in the order of names.
 */
export function placedPods(objects: SimulatedObjects): SimulatedObjects {
  const nodes = withNetworks(objects.nodes.length > 0 ? objects.nodes : madeUpNodes.map(bareNode));
  const pools = new Map(nodes.map((node) => [node.metadata.name, new NodePool(node)]));
  const names = [...pools.keys()].sort();
  const placed = new Map<string, PodObject>();
  let turn = 0;
  const waiting = objects.pods.filter((pod) => isPoliced(pod) && !(pools.has(pod.spec.nodeName ?? '') && hasClusterAddress(pod)));
  if (waiting.length > 0) for (const pod of objects.pods) pools.get(pod.spec.nodeName ?? '')?.take(pod);
  for (const pod of waiting.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1))) {
    const isPlaced = pod.spec.nodeName !== undefined && pools.has(pod.spec.nodeName);
    const nodeName = isPlaced ? (pod.spec.nodeName ?? '') : (names[turn++ % names.length] ?? '');
    const there = isPlaced ? pod : { ...pod, spec: { ...pod.spec, nodeName } };
    const own = pools.get(nodeName)?.place(there) ?? there;
    if (own !== pod) placed.set(keyOf(pod), own);
  }
  return { ...objects, nodes, pods: placed.size === 0 ? objects.pods : objects.pods.map((pod) => placed.get(keyOf(pod)) ?? pod) };
}

function bareNode(name: string): NodeObject {
  return { metadata: { name }, spec: {}, status: { addresses: [] } };
}

function withNetworks(nodes: readonly NodeObject[]): readonly NodeObject[] {
  const used = nodes.flatMap(({ spec }) => (spec.podCIDRs ?? []).map(parseCidr));
  const next = firstPodNetworks.map((network) => networksFrom(network, used));
  const order = new Map(
    nodes
      .map(({ metadata }) => metadata.name)
      .sort()
      .map((name, at) => [name, at]),
  );
  return nodes.map((node) => {
    const number = BigInt(order.get(node.metadata.name) ?? 0);
    const podCIDRs = (node.spec.podCIDRs ?? []).length > 0 ? node.spec.podCIDRs : next.map((each) => each());
    const hasAddress = node.status.addresses.some(({ type }) => type === 'InternalIP');
    const made = firstNodeAddresses.map(({ family, value }) => ({ type: 'InternalIP', address: ipFromValue(family, value + number).text }));
    return {
      ...node,
      spec: { ...node.spec, podCIDRs: podCIDRs ?? [] },
      status: { addresses: hasAddress ? node.status.addresses : [...node.status.addresses, ...made] },
    };
  });
}

/** Returns networks of one size, one after another, without those in use. */
function networksFrom({ network, prefixLength, family }: Cidr, used: readonly Cidr[]): () => string {
  const size = 1n << BigInt((family === 'ipv4' ? 32 : 128) - prefixLength);
  let value = network.value;
  return () => {
    for (;;) {
      const address = ipFromValue(family, value);
      value += size;
      if (!used.some((each) => cidrContains(each, address))) return `${address.text}/${prefixLength}`;
    }
  };
}

/** Reports whether a pod has an address of a cluster, and not only those that manifests get. */
function hasClusterAddress({ status }: PodObject): boolean {
  return (status.podIPs ?? []).some(({ ip }) => {
    const address = parseIp(ip);
    return !madeUpNetworks.some((network) => cidrContains(network, address));
  });
}

/** Addresses of one node's pods. */
class NodePool {
  readonly #networks: readonly Cidr[];
  readonly #used = new Set<string>();
  readonly #next: bigint[];

  constructor({ spec }: NodeObject) {
    this.#networks = (spec.podCIDRs ?? []).map(parseCidr);
    // The first address is the network's, the second one the gateway's.
    this.#next = this.#networks.map(({ network }) => network.value + 2n);
  }

  take({ status }: PodObject): void {
    for (const { ip } of status.podIPs ?? []) this.#used.add(parseIp(ip).text);
  }

  place(pod: PodObject): PodObject {
    if (hasClusterAddress(pod)) return pod;
    const podIPs = this.#networks.map(({ family }, at) => ({ ip: this.#free(family, at) }));
    return { ...pod, status: { phase: pod.status.phase === 'Pending' ? 'Running' : pod.status.phase, podIPs } };
  }

  #free(family: Cidr['family'], at: number): string {
    for (;;) {
      const value = this.#next[at] ?? 0n;
      this.#next[at] = value + 1n;
      const { text } = ipFromValue(family, value);
      if (!this.#used.has(text)) return text;
    }
  }
}
