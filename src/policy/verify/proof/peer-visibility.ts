import type { NetworkPolicyObject, PolicyPeerObject } from '../reference/objects.ts';
import { isPeer } from '../reference/reference-verdict.ts';
import type { NarrowedObjects } from './narrowed-objects.ts';
import { Numbering } from './numbering.ts';
import type { ProbedEnd } from './peer-groups.ts';
import { namesPorts } from './probes.ts';

/** What the policies of one namespace see of an address, whichever pod they are asked about. */
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
   * @param isOwnNode whether the address is this node's
   * @returns the same for addresses of which the reference must say the same, for any pod of the namespace that has none of them: those that the
   *   same entries of `from` or `to` mean, and whose names of ports, if rules look at them, are the same
   */
  of({ ip, party }: ProbedEnd, isOwnNode: boolean): number {
    const objects = this.#known.forPair(this.#namespace, party.is === 'pod' ? party.pod.metadata.namespace : undefined);
    const end = { direction: this.#direction, peer: party, address: ip.text };
    const meant = this.#peers.map(([policy, peer]) => (isPeer(objects, policy, peer, end) ? 1 : 0)).join('');
    const ports = this.#seesNames && party.is === 'pod' ? JSON.stringify([party.pod.spec.containers, party.pod.spec.initContainers]) : '';
    return this.#numbers.of(`${isOwnNode} ${meant} ${ports}`);
  }
}
