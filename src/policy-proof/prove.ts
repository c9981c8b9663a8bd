import { type Ip, parseCidr, parseIp } from '../net/ip.ts';
import { serviceNextHop } from '../pipeline/well-known.ts';
import type { BridgePacket, PolicyBytes } from '../policy-bytes/policy-bytes.ts';
import type { HeldFlow } from '../policy-bytes/table-index.ts';
import { judge, whoHas } from '../policy-reference/judge.ts';
import type { PolicyObjects } from '../policy-reference/objects.ts';
import { portBoundaries, probedAddresses } from './probes.ts';

/** A pod of this node whose flows are looked at. */
interface ProvenPod {
  /** `namespace/name`. */
  readonly pod: string;
  readonly ofPort: number;
  /** Its addresses, canonical. */
  readonly addresses: readonly string[];
}

interface ProofInput {
  readonly objects: PolicyObjects;
  /** The node that the flows are of. */
  readonly nodeName: string;
  readonly pods: readonly ProvenPod[];
  readonly bytes: PolicyBytes;
  /** In audit packets pass that are denied: what was decided counts. */
  readonly mode: 'enforce' | 'audit';
}

/** Where the flows on the bridge do not do what the policies say. */
interface ProofDifference {
  readonly pod: string;
  readonly direction: BridgePacket['direction'];
  readonly peer: string;
  readonly protocol: string;
  readonly first: number;
  readonly last: number;
  readonly bridge: 'allow' | 'deny' | 'closed' | 'unreadable';
  readonly policies: 'allow' | 'deny';
  /** Policies that isolate the pod, or the rules that allow: `namespace/name spec.ingress[2]`. */
  readonly by: readonly string[];
  /** Flows that decided, in the order of the packet's way. */
  readonly flows: readonly HeldFlow[];
}

export interface ProofResult {
  /** Local pod × direction × address × range of ports. */
  readonly cells: number;
  readonly allowed: number;
  readonly denied: number;
  /** Of `denied`: those of pods that nobody has decided about. */
  readonly closed: number;
  readonly differences: readonly ProofDifference[];
  /** There are more than are listed. */
  readonly differencesTotal: number;
}

const DIFFERENCES_MAX = 100;
type PeerParty = ReturnType<typeof whoHas>;
type EndVerdict = NonNullable<ReturnType<typeof judge>['ingress']>;

/**
 * Compares what the flows on a bridge do with what the policies say, in every case there is: each local pod × direction × address at which
 * anything begins or ends × range of ports.
 *
 * Yields to the caller after each pod and direction, for the reference is slow; the generator's result is the proof.
 */
export function* prove(input: ProofInput): Generator<undefined, ProofResult> {
  const { objects, pods } = input;
  const tally = { cells: 0, allowed: 0, denied: 0, closed: 0, differences: [] as ProofDifference[], differencesTotal: 0 };
  const boundaries = portBoundaries(objects);
  const partyOf = (address: string): ProbedEnd => ({ ip: parseIp(address), party: whoHas(objects, address) });
  const peers = probedAddresses(objects).map(partyOf);
  for (const { pod, ofPort, addresses } of pods) {
    const subject = { pod, ofPort, ends: addresses.map(partyOf) };
    for (const direction of ['ingress', 'egress'] as const) {
      for (const peer of peers)
        if (direction === 'egress' || !isWorldSource(peer, input.nodeName))
          for (const cell of cellsOf(input, subject, direction, peer, boundaries)) count(tally, cell);
      yield;
    }
  }
  return tally;
}

/** An address and who has it. */
interface ProbedEnd {
  readonly ip: Ip;
  readonly party: PeerParty;
}

/** What the world's packets are given on their way to other nodes: on this node no packet comes from it. */
function isWorldSource({ ip, party }: ProbedEnd, nodeName: string): boolean {
  if (party.is !== 'node' || party.node.metadata.name !== nodeName) return false;
  return (party.node.spec.podCIDRs ?? []).some((cidr) => parseCidr(cidr).network.text === ip.text);
}

interface Cell extends ProofDifference {
  readonly isEqual: boolean;
}

function count(tally: { -readonly [K in keyof ProofResult]: ProofResult[K] } & { differences: ProofDifference[] }, cell: Cell): void {
  const { isEqual, ...difference } = cell;
  tally.cells++;
  if (cell.bridge === 'allow') tally.allowed++;
  else tally.denied++;
  if (cell.bridge === 'closed') tally.closed++;
  if (isEqual) return;
  tally.differencesTotal++;
  if (tally.differences.length < DIFFERENCES_MAX) tally.differences.push(difference);
}

function* cellsOf(
  { objects, nodeName, bytes, mode }: ProofInput,
  { pod, ofPort, ends }: { readonly pod: string; readonly ofPort: number; readonly ends: readonly ProbedEnd[] },
  direction: BridgePacket['direction'],
  { ip: peer, party }: ProbedEnd,
  boundaries: Readonly<Record<string, readonly number[]>>,
): Generator<Cell> {
  const own = ends.find(({ ip }) => ip.family === peer.family);
  if (!own) return;
  const isHairpin = direction === 'ingress' && ends.some(({ ip }) => ip.text === peer.text);
  const packet: BridgePacket = isHairpin
    ? { direction, ofPort, own: own.ip, peer: serviceNextHop[peer.family], hairpin: true }
    : { direction, ofPort, own: own.ip, peer, from: wayOf(party, nodeName) };
  const { way, outcomes } = bytes.decide(packet);
  const isIngress = direction === 'ingress';
  const parties = isIngress ? { source: party, destination: own.party } : { source: own.party, destination: party };
  const tuple = isIngress ? { from: peer.text, to: own.ip.text } : { from: own.ip.text, to: peer.text };
  for (const outcome of outcomes)
    for (const { first, last } of cut(outcome, boundaries[outcome.protocol])) {
      const { protocol } = outcome;
      const named = protocol === 'other' ? 'GRE' : protocol;
      const end = judge(objects, { ...tuple, protocol: named, ...(boundaries[protocol] ? { port: first } : {}) }, parties)[direction];
      const bridge = mode === 'audit' && outcome.decided !== 'none' && outcome.verdict === 'allow' ? outcome.decided : outcome.verdict;
      const policies = end?.verdict ?? 'deny';
      const isEqual = (bridge === 'closed' ? 'deny' : bridge) === policies;
      const flows = isEqual ? [] : [...way, ...outcome.way];
      yield { pod, direction, peer: peer.text, protocol, first, last, bridge, policies, by: namesOf(end), flows, isEqual };
    }
}

/** How a packet of the other end reaches the pod. */
function wayOf(party: PeerParty, nodeName: string): NonNullable<BridgePacket['from']> {
  if (party.is === 'pod') return party.pod.spec.nodeName === nodeName ? 'pod' : 'tunnel';
  if (party.is === 'node') return party.node.metadata.name === nodeName ? 'gateway' : 'tunnel';
  return party.is === 'world' ? 'gateway' : 'tunnel';
}

function namesOf(end: EndVerdict | undefined): readonly string[] {
  if (!end) return [];
  return end.allowedBy.length > 0 ? end.allowedBy : end.isolatedBy;
}

function cut({ first, last }: { readonly first: number; readonly last: number }, boundaries: readonly number[] = []) {
  const starts = [first, ...boundaries.filter((port) => port > first && port <= last)];
  return starts.map((start, at) => ({ first: start, last: (starts[at + 1] ?? last + 1) - 1 }));
}
