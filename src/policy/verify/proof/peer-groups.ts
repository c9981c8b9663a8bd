import { type Ip, parseCidr, parseIp } from '../../../base/net/ip.ts';
import type { PolicyBytes } from '../flow-reader/flow-reader.ts';
import type { PodObject, PolicyObjects, PolicyPeerObject, PolicyRuleObject } from '../reference/objects.ts';
import type { whoHas } from '../reference/parties.ts';
import { NetworkIndex } from './network-index.ts';
import { Numbering } from './numbering.ts';
import { namesPorts, type ProvenPolicies, peersOf } from './probes.ts';

/** Address and its owner. */
export interface ProbedEnd {
  readonly ip: Ip;
  readonly party: ReturnType<typeof whoHas>;
}

/** Addresses that neither policies nor flows distinguish. */
export interface PeerGroup {
  readonly shown: ProbedEnd;
  /** Number of addresses in the group, including the one shown. */
  readonly size: number;
  /** Number that is equal for groups that the flows treat alike, if they have the same origin. */
  readonly likeness: number;
}

/**
 * Divides addresses into groups, such that one address of a group represents all: every rule of `policies` must treat them alike by the
 * API's definition, and the same flows can match them. A rule distinguishes peers by the networks that it names and that contain the
 * address; for a pod also by its namespace, the labels that a selector names, and its named ports. Each pod of this node is a group of its
 * own, because it may always reach itself.
 */
export class PeerGroups {
  readonly #policies: PolicyObjects['networkPolicies'];
  /** True if a cluster policy selects nodes by their labels. */
  readonly #namesNodes: boolean;
  readonly #nodeName: string;
  readonly #blocks = new NetworkIndex<number>();
  readonly #labels: readonly string[];
  readonly #namesPorts: boolean;

  constructor(policies: ProvenPolicies, nodeName: string) {
    const clusterPeers = (policies.clusterNetworkPolicies ?? []).flatMap(peersOf);
    this.#policies = policies.networkPolicies;
    this.#namesNodes = clusterPeers.some(({ nodes }) => nodes !== undefined);
    this.#nodeName = nodeName;
    const peers = this.#rules().flatMap(({ from, to }) => [...(from ?? []), ...(to ?? [])]);
    const cidrs = new Set([
      ...peers.flatMap(({ ipBlock }) => (ipBlock ? [ipBlock.cidr, ...(ipBlock.except ?? [])] : [])),
      ...clusterPeers.flatMap(({ networks }) => networks ?? []),
    ]);
    for (const [at, cidr] of [...cidrs].entries()) this.#blocks.add(parseCidr(cidr), at);
    const selectors = [...peers, ...clusterPeers.flatMap(({ pods }) => pods ?? [])];
    this.#labels = [...new Set(selectors.flatMap(labelsNamed))].toSorted();
    this.#namesPorts = namesPorts(policies);
  }

  of(direction: 'ingress' | 'egress', ends: readonly ProbedEnd[], bytes: Pick<PolicyBytes, 'likenessOf'>): readonly PeerGroup[] {
    const groups = new Map<string, { shown: ProbedEnd; size: number; likeness: number }>();
    const likenesses = new Numbering();
    for (const shown of ends) {
      const likeness = likenesses.of(`${shown.ip.family} ${bytes.likenessOf(direction, shown.ip)}`);
      const key = [likeness, this.#who(shown), this.#held(shown.ip)].join('\n');
      const known = groups.get(key);
      if (known) known.size++;
      else groups.set(key, { shown, size: 1, likeness });
    }
    return [...groups.values()];
  }

  #rules(): readonly PolicyRuleObject[] {
    return this.#policies.flatMap(({ spec }) => [...(spec.ingress ?? []), ...(spec.egress ?? [])]);
  }

  #held(ip: Ip): string {
    return [...this.#blocks.holding(ip)].toSorted((a, b) => a - b).join();
  }

  #who({ ip, party }: ProbedEnd): string {
    if (party.is === 'pod') return this.#whichPod(party.pod);
    if (party.is !== 'node') return party.is;
    const { metadata, spec, status } = party.node;
    // The gateway address of a node, and the source address of forwarded external traffic, also count as the other addresses of the node.
    const networks = (spec.podCIDRs ?? []).map(parseCidr).filter(({ family }) => family === ip.family);
    const places = networks.map(({ network }) => ip.value - network.value).filter((at) => at === 0n || at === 1n);
    const others = new Set(status.addresses.filter(({ type }) => type.endsWith('IP')).map(({ address }) => this.#held(parseIp(address))));
    const labels = this.#namesNodes ? metadata.labels : undefined;
    return JSON.stringify(['node', metadata.name === this.#nodeName && ip.text, places.map(String), [...others], labels]);
  }

  #whichPod({ metadata, spec }: PodObject): string {
    const { namespace, name, labels = {} } = metadata;
    if (spec.nodeName === this.#nodeName) return JSON.stringify(['own', namespace, name]);
    const seen = this.#labels.filter((key) => Object.hasOwn(labels, key)).map((key) => [key, labels[key]]);
    const ports = this.#namesPorts ? [spec.containers.map(({ ports: all }) => all), spec.initContainers] : [];
    return JSON.stringify([namespace, seen, ports]);
  }
}

function labelsNamed({ podSelector }: Pick<PolicyPeerObject, 'podSelector'>): readonly string[] {
  const { matchLabels = {}, matchExpressions = [] } = podSelector ?? {};
  return [...Object.keys(matchLabels), ...matchExpressions.map(({ key }) => key)];
}
