import { finish, type Steps } from '../../../base/async/steps.ts';
import {
  addressBits,
  type Cidr,
  cidrContains,
  cidrOf,
  type Family,
  hostCidr,
  type Ip,
  ipFromValue,
  parseCidr,
  parseIp,
} from '../../../base/net/ip.ts';
import type { IndexedPod } from '../kinds.ts';
import { compareTexts, matchesLabels, type PodLabels, type Selector } from '../selector.ts';
import { type PrefixMark, type PrefixSets, prefixSets } from './prefixes.ts';

/** Node of the cluster. Addresses and networks are canonical text. */
export interface PolicyNode {
  readonly name: string;
  readonly podCidrs: readonly string[];
  /** All addresses in the Node's status, internal and external. */
  readonly addresses: readonly string[];
  /** Absent: none. */
  readonly labels?: PodLabels;
}

interface KnownNode {
  readonly name: string;
  readonly labels: PodLabels;
  readonly podCidrs: readonly Cidr[];
  readonly addresses: readonly Ip[];
  /**
   * Addresses of the node within the pod networks: the gateway, and the source address given to external traffic that is forwarded to
   * another node.
   */
  readonly gateways: readonly Ip[];
}

/** Owner of an address. */
type AddressOwner = { readonly pod: IndexedPod } | { readonly gatewayOf: KnownNode };

export const families: readonly Family[] = ['ipv4', 'ipv6'];

/** Owner of each address in the cluster. */
export class Addresses {
  /** Pods by address. Most addresses belong to exactly one pod; an array takes a quarter of the memory of a set. */
  readonly #pods = new Map<string, { readonly ip: Ip; readonly claims: IndexedPod[] }>();
  readonly #nodes = new Map<string, KnownNode>();
  readonly #gateways = new Map<string, { readonly ip: Ip; readonly nodes: Set<KnownNode> }>();
  /** Pod networks; undefined after a change of nodes until they are computed again. */
  #networks: PodNetworks | undefined;
  #strays: Map<string, Ip> | undefined;

  addPod(pod: IndexedPod): void {
    for (const ip of pod.addresses) {
      const known = this.#pods.get(ip.text);
      if (known) known.claims.push(pod);
      else this.#pods.set(ip.text, { ip, claims: [pod] });
      if (this.#networks && isStray(ip, this.#networks)) this.#strays?.set(ip.text, ip);
    }
  }

  removePod(pod: IndexedPod): void {
    for (const { text } of pod.addresses) {
      const claims = this.#pods.get(text)?.claims ?? [];
      const at = claims.indexOf(pod);
      if (at < 0) continue;
      claims.splice(at, 1);
      if (claims.length > 0) continue;
      this.#pods.delete(text);
      this.#strays?.delete(text);
    }
  }

  putNode({ name, podCidrs, addresses, labels = {} }: PolicyNode): void {
    this.removeNode(name);
    const cidrs = podCidrs.map(parseCidr);
    const node: KnownNode = { name, labels, podCidrs: cidrs, addresses: addresses.map(parseIp), gateways: cidrs.flatMap(gatewaysOf) };
    this.#nodes.set(name, node);
    for (const ip of node.gateways) {
      const known = this.#gateways.get(ip.text);
      if (known) known.nodes.add(node);
      else this.#gateways.set(ip.text, { ip, nodes: new Set([node]) });
    }
  }

  removeNode(name: string): void {
    const node = this.#nodes.get(name);
    this.#networks = undefined;
    this.#strays = undefined;
    this.#nodes.delete(name);
    for (const { text } of node?.gateways ?? []) {
      const known = this.#gateways.get(text);
      if (node && known?.nodes.delete(node) && known.nodes.size === 0) this.#gateways.delete(text);
    }
  }

  node(name: string): KnownNode | undefined {
    return this.#nodes.get(name);
  }

  /**
   * Returns the owner of an address. If several pods claim it, the order of preference is: the pod whose node has the network, the younger
   * pod, the name.
   */
  ownerOf({ text }: Ip): AddressOwner | undefined {
    const claims = this.#pods.get(text)?.claims ?? [];
    const [pod] = claims.length > 1 ? claims.toSorted((a, b) => this.#rank(b, text) - this.#rank(a, text) || byAge(a, b)) : claims;
    if (pod) return { pod };
    const [node] = this.#gateways.get(text)?.nodes ?? [];
    return node && { gatewayOf: node };
  }

  *gateways(): Iterable<Ip> {
    for (const { ip } of this.#gateways.values()) yield ip;
  }

  /** Networks in which pods may be: the networks of nodes without the nodes' own addresses. */
  *podNetworks(): Steps<readonly PrefixMark<'pods'>[]> {
    return (yield* this.#networksNow()).marks;
  }

  /** Addresses of the nodes that a selector matches, with their gateway addresses. */
  *ofNodes(selector: Selector): Steps<readonly PrefixMark<'nodes'>[]> {
    const marks: PrefixMark<'nodes'>[] = [];
    for (const { labels, addresses, gateways } of this.#nodes.values()) {
      if (matchesLabels(selector, labels)) for (const ip of [...addresses, ...gateways]) marks.push({ cidr: hostCidr(ip), adds: 'nodes' });
      yield;
    }
    return marks;
  }

  /** Addresses of pods outside all pod networks. */
  *strays(): Steps<Iterable<Ip>> {
    if (this.#strays) return this.#strays.values();
    const networks = yield* this.#networksNow();
    const strays = new Map<string, Ip>();
    for (const { ip } of this.#pods.values()) {
      if (isStray(ip, networks)) strays.set(ip.text, ip);
      yield;
    }
    this.#strays = strays;
    return strays.values();
  }

  /** Reports whether an address is in a pod network, and not an address of a node there. */
  isInPodNetwork(ip: Ip): boolean {
    return !isStray(ip, finish(this.#networksNow()));
  }

  *#networksNow(): Steps<PodNetworks> {
    if (this.#networks) return this.#networks;
    const marks: PrefixMark<'pods'>[] = [];
    for (const { podCidrs } of this.#nodes.values()) {
      for (const cidr of podCidrs) {
        const gateways = cidrOf(cidr.network, Math.max(cidr.prefixLength, addressBits(cidr.family) - 1));
        marks.push({ cidr, adds: 'pods' }, { cidr: gateways, removes: 'pods' });
      }
      yield;
    }
    const inside = yield* setsOf(marks);
    const before = marks.length;
    for (const { addresses } of this.#nodes.values()) {
      for (const ip of addresses) if (inside[ip.family].heldAt(ip).has('pods')) marks.push({ cidr: hostCidr(ip), removes: 'pods' });
      yield;
    }
    this.#networks = { marks, sets: marks.length === before ? inside : yield* setsOf(marks) };
    return this.#networks;
  }

  #rank({ pod }: IndexedPod, address: string): number {
    const networks = pod.nodeName === undefined ? [] : (this.#nodes.get(pod.nodeName)?.podCidrs ?? []);
    return networks.some((cidr) => cidrContains(cidr, parseIp(address))) ? 1 : 0;
  }
}

interface PodNetworks {
  readonly marks: readonly PrefixMark<'pods'>[];
  readonly sets: Readonly<Record<Family, PrefixSets<'pods'>>>;
}

function isStray(ip: Ip, { sets }: PodNetworks): boolean {
  return !sets[ip.family].heldAt(ip).has('pods');
}

function* setsOf(marks: readonly PrefixMark<'pods'>[]): Steps<PodNetworks['sets']> {
  return { ipv4: yield* prefixSets('ipv4', marks), ipv6: yield* prefixSets('ipv6', marks) };
}

/** Returns the first two addresses of a network, or fewer if it has fewer. */
function gatewaysOf({ family, network, prefixLength }: Cidr): readonly Ip[] {
  return prefixLength === addressBits(family) ? [network] : [network, ipFromValue(family, network.value + 1n)];
}

function byAge(a: IndexedPod, b: IndexedPod): number {
  return compareTexts(b.pod.createdAt ?? '', a.pod.createdAt ?? '') || compareTexts(a.key, b.key);
}
