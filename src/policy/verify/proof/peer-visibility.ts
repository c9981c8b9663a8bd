import type { NetworkPolicyObject, PolicyPeerObject } from '../reference/objects.ts';
import { isPeer } from '../reference/reference-verdict.ts';
import type { NarrowedObjects } from './narrowed-objects.ts';
import { Numbering } from './numbering.ts';
import type { ProbedEnd } from './peer-groups.ts';
import { namesPorts } from './probes.ts';

/** Properties of an address that the policies of one namespace can distinguish, for any of its pods. */
export class PeerSight {
  readonly #known: NarrowedObjects;
  readonly #namespace: string;
  readonly #direction: 'ingress' | 'egress';
  readonly #peers: readonly (readonly [NetworkPolicyObject, PolicyPeerObject])[];
  readonly #seesNames: boolean;
  readonly #numbers = new Numbering();

  constructor(known: NarrowedObjects, namespace: string, direction: 'ingress' | 'egress') {
    this.#known = known;
    this.#namespace = namespace;
    this.#direction = direction;
    const policies = known.policiesOf(namespace);
    this.#peers = policies.flatMap((policy) =>
      (policy.spec[direction] ?? []).flatMap(({ from, to }) =>
        ((direction === 'ingress' ? from : to) ?? []).map((peer) => [policy, peer] as const),
      ),
    );
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
    const meant = this.#peers.map(([policy, peer]) => (isPeer(objects, policy, peer, end) ? 1 : 0)).join('');
    const ports = this.#seesNames && party.is === 'pod' ? JSON.stringify([party.pod.spec.containers, party.pod.spec.initContainers]) : '';
    return this.#numbers.of(`${isOwnNode} ${meant} ${ports}`);
  }
}
