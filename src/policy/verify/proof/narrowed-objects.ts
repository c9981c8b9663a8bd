import { isIp, parseCidr, parseIp } from '../../../base/net/ip.ts';
import type { ClusterNetworkPolicyObject, NodeObject, PodObject, PolicyObjects } from '../reference/objects.ts';
import { NetworkIndex } from './network-index.ts';
import type { ProvenPolicies } from './probes.ts';

const noObjects: PolicyObjects = { namespaces: [], pods: [], nodes: [], networkPolicies: [] };

/**
 * Selects the objects that matter to one question. The reference scans all objects that it is given, so it should be given few. By the
 * API's definition a NetworkPolicy selects pods of its own namespace only, and an address belongs to pods and nodes that list it.
 */
export class NarrowedObjects {
  readonly #podsByAddress = new Map<string, PodObject[]>();
  readonly #nodesByAddress = new Map<string, Set<NodeObject>>();
  readonly #nodesByNetwork = new NetworkIndex<NodeObject>();
  readonly #nodePlaces = new Map<NodeObject, number>();
  readonly #namespaces = new Map<string, PolicyObjects['namespaces']>();
  readonly #policies = new Map<string, PolicyObjects['networkPolicies']>();
  readonly #clusterPolicies: readonly ClusterNetworkPolicyObject[];

  constructor({ namespaces, pods, nodes, networkPolicies, clusterNetworkPolicies = [] }: PolicyObjects) {
    this.#clusterPolicies = clusterNetworkPolicies;
    for (const pod of pods) for (const { ip } of pod.status.podIPs ?? []) addTo(this.#podsByAddress, parseIp(ip).text, pod);
    for (const [place, node] of nodes.entries()) {
      this.#nodePlaces.set(node, place);
      for (const { address } of node.status.addresses) if (isIp(address)) this.#addNode(parseIp(address).text, node);
      for (const cidr of node.spec.podCIDRs ?? []) this.#nodesByNetwork.add(parseCidr(cidr), node);
    }
    for (const namespace of namespaces) this.#namespaces.set(namespace.metadata.name, [namespace]);
    for (const [namespace, policies] of Map.groupBy(networkPolicies, ({ metadata }) => metadata.namespace))
      this.#policies.set(namespace, policies);
  }

  /** Returns the objects that matter to the owner of an address. */
  forAddress(address: string): PolicyObjects {
    const ip = parseIp(address);
    const nodes = new Set([...(this.#nodesByAddress.get(ip.text) ?? []), ...this.#nodesByNetwork.holding(ip)]);
    const inOrder = [...nodes].sort((a, b) => (this.#nodePlaces.get(a) ?? 0) - (this.#nodePlaces.get(b) ?? 0));
    return { ...noObjects, pods: this.#podsByAddress.get(ip.text) ?? [], nodes: inOrder };
  }

  /** Returns the objects that matter to the policies of one namespace for a pod of another one, if both ends are known. */
  forPair(subjectNamespace: string, peerNamespace: string | undefined): PolicyObjects {
    const names = new Set([...(peerNamespace === undefined ? [] : [peerNamespace]), subjectNamespace]);
    const namespaces = [...names].flatMap((name) => this.#namespaces.get(name) ?? []);
    return { ...noObjects, namespaces, ...this.policiesOf(subjectNamespace) };
  }

  /** The same with only some NetworkPolicies. */
  forPolicies(
    networkPolicies: PolicyObjects['networkPolicies'],
    subjectNamespace: string,
    peerNamespace: string | undefined,
  ): PolicyObjects {
    return { ...this.forPair(subjectNamespace, peerNamespace), networkPolicies };
  }

  /** Policies that may apply to pods of a namespace. */
  policiesOf(namespace: string): ProvenPolicies {
    return { networkPolicies: this.#policies.get(namespace) ?? [], clusterNetworkPolicies: this.#clusterPolicies };
  }

  #addNode(address: string, node: NodeObject): void {
    this.#nodesByAddress.set(address, (this.#nodesByAddress.get(address) ?? new Set()).add(node));
  }
}

function addTo<K, V>(map: Map<K, V[]>, key: K, value: V): void {
  const known = map.get(key);
  if (known) known.push(value);
  else map.set(key, [value]);
}
