import { parseCidr, parseIp } from '../net/ip.ts';
import { serviceNextHop } from '../pipeline/well-known.ts';
import type { BridgePacket, PolicyBytes } from '../policy-bytes/policy-bytes.ts';
import type { HeldFlow } from '../policy-bytes/table-index.ts';
import { judge, whoHas } from '../policy-reference/judge.ts';
import type { PolicyObjects } from '../policy-reference/objects.ts';
import { NarrowedObjects } from './narrowed-objects.ts';
import { type PeerGroup, PeerGroups, type ProbedEnd } from './peer-groups.ts';
import { type PortBoundaries, portBoundaries, probedAddresses } from './probes.ts';

/** A pod of this node whose flows are looked at. */
export interface ProvenPod {
  /** `namespace/name`. */
  readonly pod: string;
  readonly ofPort: number;
  /** Its addresses, canonical. */
  readonly addresses: readonly string[];
  /** What its flows are to do. Absent: `policies`. */
  readonly holds?: 'policies' | 'everything' | 'own node only';
}

interface ProofInput {
  readonly objects: PolicyObjects;
  /** The node that the flows are of. */
  readonly nodeName: string;
  /** What the node sends from and is reached at, beside what its Node says; and of that what it does not have. Absent: as its Node says. */
  readonly ownAddresses?: ReadonlySet<string>;
  readonly pods: readonly ProvenPod[];
  readonly bytes: Pick<PolicyBytes, 'decide' | 'likenessOf'>;
  /** In audit packets pass that are denied: what was decided counts. */
  readonly mode: 'enforce' | 'audit';
}

/** Where the flows on the bridge do not do what the policies say. */
export interface ProofDifference {
  readonly pod: string;
  readonly direction: BridgePacket['direction'];
  readonly peer: string;
  /** How many more addresses are told apart from that one by nothing. */
  readonly morePeers: number;
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
  /** Local pod × direction × group of addresses × range of ports. */
  readonly cells: number;
  readonly allowed: number;
  readonly denied: number;
  /** Of `denied`: those of pods that nobody has decided about. */
  readonly closed: number;
  readonly differences: readonly ProofDifference[];
  /** There are more than are listed. */
  readonly differencesTotal: number;
  /** Addresses that were looked at, and the most groups that a direction has of them. */
  readonly addresses: number;
  readonly groups: number;
}

const DIFFERENCES_MAX = 1_000;
type PeerParty = ProbedEnd['party'];
type EndVerdict = NonNullable<ReturnType<typeof judge>['ingress']>;

/**
 * Compares what the flows on a bridge do with what the policies say, in every case there is: each local pod × direction × address at which
 * anything begins or ends × range of ports; addresses that nothing tells apart count as one.
 *
 * Yields to the caller after each pod and direction; the generator's result is the proof.
 */
export function* prove(input: ProofInput): Generator<undefined, ProofResult> {
  const { objects, pods, bytes, nodeName, ownAddresses } = input;
  const namespaces = new Set(pods.map(({ pod }) => pod.split('/', 1)[0]));
  const concerned = { ...objects, networkPolicies: objects.networkPolicies.filter(({ metadata }) => namespaces.has(metadata.namespace)) };
  const known = new NarrowedObjects(concerned);
  const partyOf = (address: string): ProbedEnd => ({ ip: parseIp(address), party: partyWith(input, known, address) });
  const ends = probedAddresses(concerned, ownAddresses).map(partyOf);
  const grouping = new PeerGroups(concerned.networkPolicies, nodeName);
  const groups = {
    ingress: grouping.of(
      'ingress',
      ends.filter((end) => isSource(input, end)),
      bytes,
    ),
    egress: grouping.of('egress', ends, bytes),
  };
  const tally = {
    ...nothing,
    differences: [] as ProofDifference[],
    addresses: ends.length,
    groups: Math.max(groups.ingress.length, groups.egress.length),
  };
  for (const { addresses, ...pod } of pods) {
    const subject: ProvenSubject = { ...pod, ends: addresses.map(partyOf), known, boundaries: new Map() };
    for (const direction of directions) {
      for (const group of groups[direction]) for (const cell of cellsOf(input, subject, direction, group)) count(tally, cell);
      yield;
    }
  }
  return tally;
}

const directions = ['ingress', 'egress'] as const;
const nothing = { cells: 0, allowed: 0, denied: 0, closed: 0, differencesTotal: 0 };

/** A local pod with what is looked up for it. */
interface ProvenSubject extends Omit<ProvenPod, 'addresses'> {
  readonly ends: readonly ProbedEnd[];
  readonly known: NarrowedObjects;
  /** By the pod that answers, whose names of ports count. */
  readonly boundaries: Map<unknown, PortBoundaries>;
}

/** The Node of this node says less than its interfaces have: what else it has is its own too. */
function partyWith({ objects, nodeName, ownAddresses }: ProofInput, known: NarrowedObjects, address: string): PeerParty {
  const party = whoHas(known.forAddress(address), address);
  if (party.is === 'pod' || party.is === 'node' || !ownAddresses?.has(parseIp(address).text)) return party;
  const node = objects.nodes.find(({ metadata }) => metadata.name === nodeName);
  return node ? { is: 'node', node } : party;
}

/**
 * Whether packets with this source come to this node's pods. What the world's packets are given on their way to other nodes does not, nor
 * what the Node of this node says that it has, and no interface has.
 */
function isSource({ nodeName, ownAddresses }: ProofInput, end: ProbedEnd): boolean {
  const { ip, party } = end;
  if (party.is !== 'node' || party.node.metadata.name !== nodeName) return true;
  const isNetwork = (party.node.spec.podCIDRs ?? []).some((cidr) => parseCidr(cidr).network.text === ip.text);
  return !isNetwork && isOwnNode(nodeName, ownAddresses, end);
}

function isOwnNode(nodeName: string, ownAddresses: ReadonlySet<string> | undefined, { ip, party }: ProbedEnd): boolean {
  return party.is === 'node' && party.node.metadata.name === nodeName && (ownAddresses?.has(ip.text) ?? true);
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
  { nodeName, ownAddresses, bytes, mode }: ProofInput,
  subject: ProvenSubject,
  direction: BridgePacket['direction'],
  { shown: { ip: peer, party }, size }: PeerGroup,
): Generator<Cell> {
  const { pod, ofPort, ends } = subject;
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
  const asked = questionOf(subject, direction, { own: own.party, peer: party }, isOwnNode(nodeName, ownAddresses, { ip: peer, party }));
  const boundaries = boundariesFor(subject, parties.destination);
  for (const outcome of outcomes)
    for (const { first, last } of cut(outcome, boundaries[outcome.protocol])) {
      const { protocol } = outcome;
      const named = protocol === 'other' ? 'GRE' : protocol;
      const end = asked({ ...tuple, protocol: named, ...(boundaries[protocol] ? { port: first } : {}) }, parties);
      const bridge = mode === 'audit' && outcome.decided !== 'none' && outcome.verdict === 'allow' ? outcome.decided : outcome.verdict;
      const policies = end?.verdict ?? 'deny';
      const isEqual = (bridge === 'closed' ? 'deny' : bridge) === policies;
      const flows = isEqual ? [] : [...way, ...outcome.way];
      const where = { pod, direction, peer: peer.text, morePeers: size - 1, protocol, first, last };
      yield { ...where, bridge, policies, by: namesOf(end), flows, isEqual };
    }
}

type Question = (...of: Tail<Parameters<typeof judge>>) => Pick<EndVerdict, 'verdict' | 'allowedBy' | 'isolatedBy'> | undefined;
type Tail<T extends readonly unknown[]> = T extends [unknown, ...infer Rest] ? Rest : never;

/** The reference, or what stands in its place for a pod that policies do not hold for. */
function questionOf(
  { known, holds = 'policies' }: ProvenSubject,
  direction: BridgePacket['direction'],
  { own, peer }: { readonly own: PeerParty; readonly peer: PeerParty },
  isFromOwnNode: boolean,
): Question {
  const noRules = { allowedBy: [], isolatedBy: [] };
  if (holds !== 'policies') {
    const isItself = own.is === 'pod' && peer.is === 'pod' && own.pod === peer.pod;
    return () => ({ verdict: holds === 'everything' || isItself || isFromOwnNode ? 'allow' : 'deny', ...noRules });
  }
  if (own.is !== 'pod') return () => undefined;
  const objects = known.forPair(own.pod.metadata.namespace, peer.is === 'pod' ? peer.pod.metadata.namespace : undefined);
  return (...of) => judge(objects, ...of)[direction];
}

function boundariesFor({ pod, known, boundaries }: ProvenSubject, destination: PeerParty): PortBoundaries {
  const answering = destination.is === 'pod' ? destination.pod : undefined;
  const found = boundaries.get(answering) ?? portBoundaries(known.policiesOf(pod.split('/', 1)[0] ?? ''), answering);
  boundaries.set(answering, found);
  return found;
}

/** How a packet of the other end reaches the pod. */
function wayOf(party: PeerParty, nodeName: string): NonNullable<BridgePacket['from']> {
  if (party.is === 'pod') return party.pod.spec.nodeName === nodeName ? 'pod' : 'tunnel';
  if (party.is === 'node') return party.node.metadata.name === nodeName ? 'gateway' : 'tunnel';
  return party.is === 'world' ? 'gateway' : 'tunnel';
}

function namesOf(end: ReturnType<Question>): readonly string[] {
  if (!end) return [];
  return end.allowedBy.length > 0 ? end.allowedBy : end.isolatedBy;
}

function cut({ first, last }: { readonly first: number; readonly last: number }, boundaries: readonly number[] = []) {
  const starts = [first, ...boundaries.filter((port) => port > first && port <= last)];
  return starts.map((start, at) => ({ first: start, last: (starts[at + 1] ?? last + 1) - 1 }));
}
