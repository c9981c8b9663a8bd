import { type Family, type Ip, parseIp } from '../../base/net/ip.ts';
import type { PolicyDirection } from '../matrix/matrix.ts';
import type { ReachObjects } from '../reach/objects.ts';
import { addressesOf, partyName, type ReachParty } from '../reach/party.ts';
import { Reach } from '../reach/reach.ts';
import { pairOf, type Unit, unitsOf } from '../reach/units.ts';
import type { ClusterNetworkPolicyObject } from '../verify/reference/objects.ts';
import { addressesOfNode, type End, type JudgedConnection } from '../verify/reference/parties.ts';

/** Connection without a port, from or to a subject. */
export interface LintedEnd {
  readonly direction: PolicyDirection;
  readonly subject: ReachParty;
  readonly peer: ReachParty;
  readonly family: Family;
  /** The end as the reference takes it. */
  readonly end: End;
  readonly from: string;
  readonly to: string;
}

/** All ends of a cluster that policies distinguish, one pair of parties for each. */
export class LintedEnds {
  readonly objects: ReachObjects;
  readonly reach: Reach;
  readonly #kinds: readonly Unit[];

  constructor(objects: ReachObjects) {
    this.reach = new Reach(objects);
    this.objects = this.reach.objects;
    this.#kinds = kindsOf(this.reach);
  }

  /** Returns the ends whose subject one of the policies applies to; all ends if none is given. */
  *of(direction: PolicyDirection, ...policies: readonly string[]): Generator<LintedEnd> {
    for (const kind of this.#kinds) {
      const [party] = kind.parties;
      if (party?.is !== 'pod') continue;
      const own = this.reach.policiesOf(direction, party);
      if (own.length === 0 || !policies.every((name) => own.includes(name))) continue;
      for (const other of this.#kinds) {
        const pair = direction === 'ingress' ? pairOf(other, kind) : pairOf(kind, other);
        if (pair) yield* endsOf(direction, pair);
      }
    }
  }
}

function kindsOf(reach: Reach): readonly Unit[] {
  const parties = unitsOf(reach).flatMap((unit) => unit.parties);
  const byClass = Map.groupBy(parties, (party) => `${party.is} ${[...addressesOf(party).keys()].join()} ${reach.effectText(party)}`);
  return [...byClass.values()].map((same) => ({ name: partyName(same[0] ?? { is: 'outside', address: '' }), parties: same }));
}

function* endsOf(direction: PolicyDirection, [source, destination]: readonly [ReachParty, ReachParty]): Generator<LintedEnd> {
  const [subject, peer] = direction === 'ingress' ? [destination, source] : [source, destination];
  if (subject.is !== 'pod' || (peer.is === 'pod' && peer.pod === subject.pod)) return;
  if (direction === 'ingress' && peer.is === 'node' && peer.node.metadata.name === subject.pod.spec.nodeName) return;
  for (const { family, text: address } of distinguishedAddresses(peer)) {
    const own = addressesOf(subject).get(family);
    if (own === undefined) continue;
    const end: End = { direction, subject: subject.pod, peer: ownerOf(peer), address, destination: ownerOf(destination) };
    const [from, to] = direction === 'ingress' ? [address, own] : [own, address];
    yield { direction, subject, peer, family, end, from, to };
  }
}

/** Returns the addresses by which networks of policies may distinguish a party: all of a node, one of each family of another party. */
function distinguishedAddresses(party: ReachParty): readonly Ip[] {
  return (party.is === 'node' ? addressesOfNode(party.node) : [...addressesOf(party).values()]).map(parseIp);
}

function ownerOf(party: ReachParty): End['peer'] {
  if (party.is === 'pod') return { is: 'pod', pod: party.pod };
  return party.is === 'node' ? { is: 'node', node: party.node } : { is: 'external' };
}

/** Returns a connection as a user reads it: `shop/api-0 to shop/db-0, TCP 5432`. */
export function connectionText({ direction, subject, peer }: LintedEnd, { protocol, port }: ProtocolPort): string {
  const [from, to] = direction === 'ingress' ? [peer, subject] : [subject, peer];
  return `${partyName(from)} to ${partyName(to)}, ${port === undefined ? 'protocols without ports' : `${protocol} ${port}`}`;
}

export type ProtocolPort = Pick<JudgedConnection, 'protocol' | 'port'>;

export function connectionOf({ from, to }: LintedEnd, at: ProtocolPort): JudgedConnection {
  return { from, to, ...at };
}

const LAST_PORT = 65_535;

/** Returns one port of each range that no policy of the objects divides, and a protocol without ports. */
export function probedPorts({ pods, networkPolicies, clusterNetworkPolicies = [] }: ReachObjects): readonly ProtocolPort[] {
  const starts = new Set([1]);
  const add = (first: number, last: number): void => {
    for (const port of [first, last + 1]) if (port > 0 && port <= LAST_PORT) starts.add(port);
  };
  for (const policy of clusterNetworkPolicies) for (const [first, last] of portsOf(policy)) add(first, last);
  for (const { spec } of networkPolicies)
    for (const { ports } of [...(spec.ingress ?? []), ...(spec.egress ?? [])])
      for (const { port, endPort } of ports ?? []) if (typeof port === 'number') add(port, endPort ?? port);
  const named = pods.flatMap(({ spec }) => [...spec.containers, ...(spec.initContainers ?? [])]).flatMap(({ ports }) => ports ?? []);
  for (const { name, containerPort } of named) if (name !== undefined) add(containerPort, containerPort);
  const numbers = [...starts].sort((a, b) => a - b);
  return [{ protocol: 'GRE' }, ...['TCP', 'UDP', 'SCTP'].flatMap((protocol) => numbers.map((port) => ({ protocol, port })))];
}

function portsOf({ spec }: ClusterNetworkPolicyObject): readonly (readonly [number, number])[] {
  const protocols = [...(spec.ingress ?? []), ...(spec.egress ?? [])].flatMap((rule) => rule.protocols ?? []);
  return protocols.flatMap(({ tcp, udp, sctp }) => {
    const { number, range } = (tcp ?? udp ?? sctp)?.destinationPort ?? {};
    return number === undefined ? (range ? [[range.start, range.end] as const] : []) : [[number, number] as const];
  });
}
