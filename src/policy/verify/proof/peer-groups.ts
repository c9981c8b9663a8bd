import { type Ip, parseCidr, parseIp } from '../../../base/net/ip.ts';
import type { PolicyBytes } from '../flow-reader/flow-reader.ts';
import type { PodObject, PolicyObjects, PolicyPeerObject, PolicyRuleObject } from '../reference/objects.ts';
import type { whoHas } from '../reference/reference-verdict.ts';
import { NetworkIndex } from './network-index.ts';
import { Numbering } from './numbering.ts';

/** An address and who has it. */
export interface ProbedEnd {
  readonly ip: Ip;
  readonly party: ReturnType<typeof whoHas>;
}

/** Addresses that nothing tells apart: neither any policy nor any flow. */
export interface PeerGroup {
  readonly shown: ProbedEnd;
  /** How many addresses it stands for, itself among them. */
  readonly size: number;
  /** The same for groups that fare alike on the bridge, if they come by the same way. */
  readonly likeness: number;
}

/**
 * Divides addresses into groups of which one address shows what becomes of all: those of which every rule of `policies` must say the same by
 * the API's text, and which the same flows can match. A rule sees of a peer the networks that it names and hold the address, and of a pod
 * its namespace, the labels that some selector names, and its named ports. Pods of this node are each a group, for each is itself to itself.
 */
export class PeerGroups {
  readonly #policies: PolicyObjects['networkPolicies'];
  readonly #nodeName: string;
  readonly #blocks = new NetworkIndex<number>();
  readonly #labels: readonly string[];
  readonly #namesPorts: boolean;

  constructor(policies: PolicyObjects['networkPolicies'], nodeName: string) {
    this.#policies = policies;
    this.#nodeName = nodeName;
    const peers = this.#rules().flatMap(({ from, to }) => [...(from ?? []), ...(to ?? [])]);
    const cidrs = new Set(peers.flatMap(({ ipBlock }) => (ipBlock ? [ipBlock.cidr, ...(ipBlock.except ?? [])] : [])));
    for (const [at, cidr] of [...cidrs].entries()) this.#blocks.add(parseCidr(cidr), at);
    this.#labels = [...new Set(peers.flatMap(labelsNamed))].toSorted();
    this.#namesPorts = this.#rules().some(({ ports }) => (ports ?? []).some(({ port }) => typeof port === 'string'));
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
    // The gateway of a node, and what the world's packets have, are also what its other addresses are.
    const networks = (spec.podCIDRs ?? []).map(parseCidr).filter(({ family }) => family === ip.family);
    const places = networks.map(({ network }) => ip.value - network.value).filter((at) => at === 0n || at === 1n);
    const others = new Set(status.addresses.filter(({ type }) => type.endsWith('IP')).map(({ address }) => this.#held(parseIp(address))));
    return JSON.stringify(['node', metadata.name === this.#nodeName && ip.text, places.map(String), [...others]]);
  }

  #whichPod({ metadata, spec }: PodObject): string {
    const { namespace, name, labels = {} } = metadata;
    if (spec.nodeName === this.#nodeName) return JSON.stringify(['own', namespace, name]);
    const seen = this.#labels.filter((key) => Object.hasOwn(labels, key)).map((key) => [key, labels[key]]);
    const ports = this.#namesPorts ? [spec.containers.map(({ ports: all }) => all), spec.initContainers] : [];
    return JSON.stringify([namespace, seen, ports]);
  }
}

function labelsNamed({ podSelector }: PolicyPeerObject): readonly string[] {
  const { matchLabels = {}, matchExpressions = [] } = podSelector ?? {};
  return [...Object.keys(matchLabels), ...matchExpressions.map(({ key }) => key)];
}
