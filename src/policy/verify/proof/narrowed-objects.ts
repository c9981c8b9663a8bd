import { isIp, parseCidr, parseIp } from '../../../base/net/ip.ts';
import type { NodeObject, PodObject, PolicyObjects } from '../reference/objects.ts';
import { NetworkIndex } from './network-index.ts';

const nobody: PolicyObjects = { namespaces: [], pods: [], nodes: [], networkPolicies: [] };

/**
 * The objects that can matter to one question, so that the reference, which looks at all that it is given, is given few: by the API's text
 * a policy selects pods of its own namespace only, and an address is a pod's or a node's that says so.
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

  /** For the question who has an address. */
  forAddress(address: string): PolicyObjects {
    const ip = parseIp(address);
    const nodes = new Set([...(this.#nodesByAddress.get(ip.text) ?? []), ...this.#nodesByNetwork.holding(ip)]);
    const inOrder = [...nodes].sort((a, b) => (this.#nodePlaces.get(a) ?? 0) - (this.#nodePlaces.get(b) ?? 0));
    return { ...nobody, pods: this.#podsByAddress.get(ip.text) ?? [], nodes: inOrder };
  }

  /** For the question what policies of one namespace say of a pod of another, where it is known who both are. */
  forPair(subjectNamespace: string, peerNamespace: string | undefined): PolicyObjects {
    const namespaces = peerNamespace === undefined ? [] : (this.#namespaces.get(peerNamespace) ?? []);
    return { ...nobody, namespaces, networkPolicies: this.policiesOf(subjectNamespace) };
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
