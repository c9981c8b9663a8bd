import { SeineError } from '../../../base/errors/seine-error.ts';
import { isIp, parseCidr, parseIp } from '../../../base/net/ip.ts';
import { isClusterPeer } from '../reference/cluster-verdict.ts';
import type { ClusterPeerObject, NetworkPolicyObject, PolicyPeerObject } from '../reference/objects.ts';
import { isPeer } from '../reference/reference-verdict.ts';
import type { NarrowedObjects } from './narrowed-objects.ts';
import { NetworkIndex } from './network-index.ts';
import { Numbering } from './numbering.ts';
import type { ProbedEnd } from './peer-groups.ts';
import { namesPorts } from './probes.ts';

/** Entry of `from` or `to` of a rule. */
interface RulePeer {
  readonly policy: NetworkPolicyObject;
  /** Place of the rule in its policy. */
  readonly rule: number;
  readonly peer: PolicyPeerObject;
}

/** Rules with an entry that matches an address, or without entries, by policy: their places in order. */
export type MatchedRules = ReadonlyMap<NetworkPolicyObject, readonly number[]>;

/** Properties of an address that the policies of one namespace can distinguish, for any of its pods. */
export class PeerVisibility {
  readonly #known: NarrowedObjects;
  readonly #namespace: string;
  readonly #direction: 'ingress' | 'egress';
  readonly #peers: readonly RulePeer[];
  /** Places in the list of entries that name pods, and of those that name a network. */
  readonly #selectors: readonly number[];
  readonly #blocks = new NetworkIndex<number>();
  /** Rules without entries, which everything matches. */
  readonly #open: readonly Omit<RulePeer, 'peer'>[];
  readonly #clusterPeers: readonly ClusterPeerObject[];
  readonly #seesNames: boolean;
  readonly #numbers = new Numbering();
  readonly #matched: MatchedRules[] = [];

  constructor(known: NarrowedObjects, namespace: string, direction: 'ingress' | 'egress') {
    this.#known = known;
    this.#namespace = namespace;
    this.#direction = direction;
    const policies = known.policiesOf(namespace);
    this.#clusterPeers = (policies.clusterNetworkPolicies ?? []).flatMap(({ spec }) =>
      (spec[direction] ?? []).flatMap(({ from, to }) => (direction === 'ingress' ? from : to) ?? []),
    );
    const rules = policies.networkPolicies.flatMap((policy) =>
      (policy.spec[direction] ?? []).map(({ from, to }, rule) => ({ policy, rule, peers: (direction === 'ingress' ? from : to) ?? [] })),
    );
    this.#peers = rules.flatMap(({ policy, rule, peers }) => peers.map((peer) => ({ policy, rule, peer })));
    this.#open = rules.filter(({ peers }) => peers.length === 0);
    this.#selectors = [...this.#peers.keys()].filter((at) => !this.#peers[at]?.peer.ipBlock);
    for (const [at, { peer }] of this.#peers.entries()) if (peer.ipBlock) this.#blocks.add(parseCidr(peer.ipBlock.cidr), at);
    this.#seesNames = direction === 'egress' && namesPorts(policies);
  }

  /**
   * Returns the class of an address.
   *
   * @param isOwnNode true if the address is this node's
   * @returns equal numbers for addresses that the reference must treat alike for any pod of the namespace that has none of them: the same
   * entries of `from` or `to` match them, and their named ports are the same if rules use such names
   */
  of({ ip, party }: ProbedEnd, isOwnNode: boolean): number {
    const objects = this.#known.forPair(this.#namespace, party.is === 'pod' ? party.pod.metadata.namespace : undefined);
    const end = { direction: this.#direction, peer: party, address: ip.text };
    const places = this.#possible({ ip, party }).filter((at) => {
      const each = this.#peers[at];
      return each && isPeer(objects, each.policy, each.peer, end);
    });
    const ports = this.#seesNames && party.is === 'pod' ? JSON.stringify([party.pod.spec.containers, party.pod.spec.initContainers]) : '';
    const selected = this.#clusterPeers.map((peer) =>
      (['Accept', 'Deny'] as const).map((action) => isClusterPeer(objects, peer, end, action).charAt(0)).join(''),
    );
    // Named ports of pods that are not known are not known either.
    const kind = this.#clusterPeers.length > 0 ? party.is : '';
    const number = this.#numbers.of(`${isOwnNode} ${places.join()} ${ports} ${selected.join()} ${kind}`);
    this.#matched[number] ??= rulesOf([...places.flatMap((at) => this.#peers[at] ?? []), ...this.#open]);
    return number;
  }

  /** Returns the rules that addresses of a class match. */
  matchedBy(number: number): MatchedRules {
    const matched = this.#matched[number];
    if (matched === undefined) throw new SeineError('INVARIANT', `there is no class ${number} of addresses`);
    return matched;
  }

  /**
   * Returns the places of entries that can match an address, in order: by the API's definition selectors select pods, and a block matches
   * addresses that its network contains. A node's gateway address also counts as its other addresses.
   */
  #possible({ ip, party }: ProbedEnd): readonly number[] {
    const others = party.is === 'node' ? party.node.status.addresses.flatMap(({ address }) => (isIp(address) ? parseIp(address) : [])) : [];
    const blocks = new Set([ip, ...others].flatMap((each) => [...this.#blocks.holding(each)]));
    const selectors = party.is === 'pod' || party.is === 'address of no pod' ? this.#selectors : [];
    return [...blocks, ...selectors].sort((a, b) => a - b);
  }
}

function rulesOf(found: readonly Omit<RulePeer, 'peer'>[]): MatchedRules {
  const rules = new Map<NetworkPolicyObject, Set<number>>();
  for (const { policy, rule } of found) {
    const known = rules.get(policy) ?? new Set();
    rules.set(policy, known.add(rule));
  }
  return new Map([...rules].map(([policy, places]) => [policy, [...places].sort((a, b) => a - b)]));
}
