import { isIp, parseCidr, parseIp } from '../../../base/net/ip.ts';
import type { NodeObject, PodObject, PolicyObjects } from '../reference/objects.ts';
import { NetworkIndex } from './network-index.ts';

const nobody: PolicyObjects = { namespaces: [], pods: [], nodes: [], networkPolicies: [] };

/**
 * Selects the objects that matter to one question. The reference scans all objects that it is given, so it should be given few. By the
 * API's definition a policy selects pods of its own namespace only, and an address belongs to pods and nodes that list it.
 */
export class NarrowedObjects {
  readonly #podsByAddress = new Map<string, PodObject[]>();
  readonly #nodesByAddress = new Map<string, Set<NodeObject>>();
  readonly #nodesByNetwork = new NetworkIndex<NodeObject>();
  readonly #nodePlaces = new Map<NodeObject, number>();
  readonly #namespaces = new Map<string, PolicyObjects['namespaces']>();
  readonly #policies = new Map<string, PolicyObjects['networkPolicies']>();

  constructor({ namespaces, pods, nodes, networkPolicies }: PolicyObjects) {
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
    return { ...nobody, pods: this.#podsByAddress.get(ip.text) ?? [], nodes: inOrder };
  }

  /** Returns the objects that matter to the policies of one namespace for a pod of another one, if both ends are known. */
  forPair(subjectNamespace: string, peerNamespace: string | undefined): PolicyObjects {
    const namespaces = peerNamespace === undefined ? [] : (this.#namespaces.get(peerNamespace) ?? []);
    return { ...nobody, namespaces, networkPolicies: this.policiesOf(subjectNamespace) };
  }

  /** The same with only some policies. */
  forPolicies(networkPolicies: PolicyObjects['networkPolicies'], peerNamespace: string | undefined): PolicyObjects {
    return { ...this.forPair('', peerNamespace), networkPolicies };
  }

  policiesOf(namespace: string): PolicyObjects['networkPolicies'] {
    return this.#policies.get(namespace) ?? [];
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
