import { addressBits, type Ip, ipFromValue, isIp, parseCidr, parseIp } from '../../base/net/ip.ts';
import { keyOf } from '../../policy/reach/objects.ts';
import type { SimulatedObjects } from './cluster-objects.ts';

type ListOf<K extends keyof SimulatedObjects> = NonNullable<SimulatedObjects[K]>;

type PodAt = ListOf<'pods'>[number];

/** Objects by address, name and namespace, for readers that scan every object that they are given, such as the reference. */
export class ObjectsIndex {
  readonly #objects: SimulatedObjects;
  /** A list only where several pods have an address. */
  readonly #podsAt = new Map<string, PodAt | PodAt[]>();
  readonly #policies: ReadonlyMap<string, ListOf<'networkPolicies'>>;
  readonly #namespaces: ReadonlyMap<string, ListOf<'namespaces'>[number]>;
  readonly #nodes: ReadonlyMap<string, ListOf<'nodes'>[number]>;
  readonly #nodesAt = new Map<string, ListOf<'nodes'>[number]>();
  /** Prefix lengths of pod networks by family. */
  readonly #lengths = { ipv4: new Set<number>(), ipv6: new Set<number>() };
  readonly #servicesAt = new Map<string, ListOf<'services'>[number][]>();
  /** Services that every address of a node may have. */
  readonly #nodePortServices: ListOf<'services'>;
  readonly #slices: ReadonlyMap<string, ListOf<'slices'>>;

  constructor(objects: SimulatedObjects) {
    this.#objects = objects;
    for (const pod of objects.pods) for (const { ip } of pod.status.podIPs ?? []) this.#addPod(parseIp(ip).text, pod);
    this.#policies = Map.groupBy(objects.networkPolicies, ({ metadata }) => metadata.namespace);
    this.#namespaces = new Map(objects.namespaces.map((each) => [each.metadata.name, each]));
    this.#nodes = new Map(objects.nodes.map((each) => [each.metadata.name, each]));
    for (const node of objects.nodes) this.#addNode(node);
    for (const service of objects.services)
      for (const address of new Set(addressesOfService(service))) append(this.#servicesAt, address, service);
    this.#nodePortServices = objects.services.filter(({ spec }) => (spec.ports ?? []).some(({ nodePort }) => nodePort));
    this.#slices = Map.groupBy(
      objects.slices,
      ({ metadata: { namespace, labels } }) => `${namespace}/${labels?.['kubernetes.io/service-name'] ?? ''}`,
    );
  }

  #addPod(address: string, pod: PodAt): void {
    const known = this.#podsAt.get(address);
    if (Array.isArray(known)) known.push(pod);
    else this.#podsAt.set(address, known === undefined ? pod : [known, pod]);
  }

  /** Pods that have an address, in the order of the objects. @param address canonical text */
  podsAt(address: string): readonly PodAt[] {
    const known = this.#podsAt.get(address);
    if (known === undefined) return [];
    return Array.isArray(known) ? known : [known];
  }

  #addNode(node: ListOf<'nodes'>[number]): void {
    for (const { address } of node.status.addresses) if (isIp(address)) this.#nodesAt.set(parseIp(address).text, node);
    for (const cidr of (node.spec.podCIDRs ?? []).map(parseCidr)) {
      this.#lengths[cidr.family].add(cidr.prefixLength);
      this.#nodesAt.set(cidr.text, node);
    }
  }

  /** Returns the objects that can matter to packets between addresses. @param through names of nodes that they pass */
  objectsAt(addresses: readonly string[], through: readonly string[] = []): SimulatedObjects {
    const ips = addresses.filter(isIp).map(parseIp);
    const pods = ips.flatMap(({ text }) => this.podsAt(text));
    const names = new Set(pods.map(({ metadata }) => metadata.namespace));
    const nodes = [
      ...ips.flatMap((ip) => this.#nodesAround(ip)),
      ...through.flatMap((name) => this.#nodes.get(name) ?? []),
      ...pods.flatMap(({ spec }) => (spec.nodeName === undefined ? [] : (this.#nodes.get(spec.nodeName) ?? []))),
    ];
    const isOfNode = ips.some(({ text }) => this.#nodesAt.has(text));
    const services = [...ips.flatMap(({ text }) => this.#servicesAt.get(text) ?? []), ...(isOfNode ? this.#nodePortServices : [])];
    return {
      ...this.#objects,
      pods: [...new Set(pods)],
      nodes: [...new Set(nodes)],
      namespaces: [...names].flatMap((name) => this.#namespaces.get(name) ?? []),
      networkPolicies: [...names].flatMap((name) => this.#policies.get(name) ?? []),
      services: [...new Set(services)],
      slices: [...new Set(services)].flatMap((service) => this.#slices.get(keyOf(service)) ?? []),
    };
  }

  /** Nodes that have an address, or whose pod network contains it. */
  #nodesAround({ family, value, text }: Ip): readonly ListOf<'nodes'>[number][] {
    const networks = [...this.#lengths[family]].map((length) => {
      const rest = BigInt(addressBits(family) - length);
      return `${ipFromValue(family, (value >> rest) << rest).text}/${length}`;
    });
    return [text, ...networks].flatMap((key) => this.#nodesAt.get(key) ?? []);
  }
}

/** Addresses of a Service, in canonical text. */
function addressesOfService({ spec, status }: ListOf<'services'>[number]): readonly string[] {
  const ingress = (status?.loadBalancer?.ingress ?? []).map(({ ip }) => ip ?? '');
  return [...(spec.clusterIPs ?? []), ...(spec.externalIPs ?? []), ...ingress].filter(isIp).map((address) => parseIp(address).text);
}

function append<T>(lists: Map<string, T[]>, key: string, value: T): void {
  const list = lists.get(key);
  if (list) list.push(value);
  else lists.set(key, [value]);
}
