import { parseCidr, parseIp } from '../../../base/net/ip.ts';
import { serviceNextHop } from '../../../dataplane/pipeline/well-known.ts';
import type { BridgePacket, PolicyBytes } from '../flow-reader/flow-reader.ts';
import type { HeldFlow } from '../flow-reader/table-index.ts';
import type { Walked } from '../flow-reader/walk.ts';
import type { NetworkPolicyObject, PolicyObjects } from '../reference/objects.ts';
import { whoHas } from '../reference/parties.ts';
import { judge } from '../reference/reference-verdict.ts';
import { LeftOutClusterNetworks } from './left-out-cluster-networks.ts';
import { NarrowedObjects } from './narrowed-objects.ts';
import { NarrowedPolicies, noPolicies, type PolicySelection } from './narrowed-policies.ts';
import { type PeerGroup, PeerGroups, type ProbedEnd } from './peer-groups.ts';
import { PeerVisibility } from './peer-visibility.ts';
import { type ProvenPolicies, portBoundaries, probedAddresses } from './probes.ts';
import { withoutNetworks } from './without-networks.ts';

/** Pod of this node whose flows are checked. */
export interface ProvenPod {
  /** `namespace/name`. */
  readonly pod: string;
  readonly ofPort: number;
  /** Addresses of the pod, canonical text. */
  readonly addresses: readonly string[];
  /** Expected effect of its flows. Default: `policies`. */
  readonly holds?: 'policies' | 'everything' | 'own node only';
}

interface ProofInput {
  readonly objects: PolicyObjects;
  /** Node that the flows belong to. */
  readonly nodeName: string;
  /**
   * Addresses from which the node sends or at which it is reached: it may have more than its Node object lists, or fewer. Default: those of
   * the Node object.
   */
  readonly ownAddresses?: ReadonlySet<string>;
  readonly pods: readonly ProvenPod[];
  readonly bytes: Pick<PolicyBytes, 'decide' | 'likenessOf'>;
  /** Rules whose networks the node reports as denied, `namespace/name spec.ingress[2]`. Default: none. */
  readonly leftOutRules?: ReadonlySet<string>;
  /** Setting of the node. Default: `closed`. */
  readonly unknownPeers?: 'closed' | 'open';
  /** Answer to denied clients where policies and namespaces state none. Default: answers are not compared. */
  readonly denied?: 'reject' | 'drop';
  /** Mode of the node. In audit mode denied packets pass, so the decision of the rows is compared. */
  readonly mode: 'enforce' | 'audit';
}

/** Difference between the flows on the bridge and the policies. */
export interface ProofDifference {
  readonly pod: string;
  readonly direction: BridgePacket['direction'];
  readonly peer: string;
  /** Number of further addresses in the same group. */
  readonly morePeers: number;
  readonly protocol: string;
  readonly first: number;
  readonly last: number;
  /** `reject`: denied, and the sender may get an answer; only where both deny and the answers differ. */
  readonly bridge: 'allow' | 'deny' | 'reject' | 'closed' | 'unreadable';
  readonly policies: 'allow' | 'deny' | 'reject';
  /** Policies that isolate the pod, or the rules that allow: `namespace/name spec.ingress[2]`. */
  readonly by: readonly string[];
  /** Flows that decided, in the order in which the packet passes them. */
  readonly flows: readonly HeldFlow[];
}

export interface ProofResult {
  /** Number of cells: local pod × direction × group of addresses × range of ports. */
  readonly cells: number;
  readonly allowed: number;
  readonly denied: number;
  /** Part of `denied` that belongs to pods which are blocked pending policy. */
  readonly closed: number;
  readonly differences: readonly ProofDifference[];
  /** Number of differences, including those not listed. */
  readonly differencesTotal: number;
  /** Number of addresses, and the larger number of groups of the two directions. */
  readonly addresses: number;
  readonly groups: number;
}

const DIFFERENCES_MAX = 1_000;
type PeerParty = ProbedEnd['party'];
type EndVerdict = NonNullable<ReturnType<typeof judge>['ingress']>;

/**
 * Compares the flows on a bridge with the policies in every possible case: each local pod × direction × address at which an effect can
 * change × range of ports. Addresses that nothing distinguishes count as one.
 *
 * Yields to the caller after each pod and direction; the generator's result is the proof.
 */
export function* prove(input: ProofInput): Generator<undefined, ProofResult> {
  const { objects, pods, bytes, nodeName, ownAddresses } = input;
  const namespaces = new Set(pods.map(({ pod }) => pod.split('/', 1)[0]));
  const concerned = { ...objects, networkPolicies: objects.networkPolicies.filter(({ metadata }) => namespaces.has(metadata.namespace)) };
  const known = new NarrowedObjects({
    ...concerned,
    networkPolicies: withoutNetworks(concerned.networkPolicies, input.leftOutRules ?? new Set()),
  });
  const leftOutNetworks = new LeftOutClusterNetworks(objects.clusterNetworkPolicies ?? [], input.leftOutRules ?? new Set());
  const partyOf = (address: string): ProbedEnd => ({ ip: parseIp(address), party: partyWith(input, known, address) });
  const ends = probedAddresses(concerned, ownAddresses).map(partyOf);
  const grouping = new PeerGroups(concerned, nodeName);
  const groups = {
    ingress: grouping.of(
      'ingress',
      ends.filter((end) => isSource(input, end)),
      bytes,
    ),
    egress: grouping.of('egress', ends, bytes),
  };
  const tally: Tally = {
    ...nothing,
    differences: [],
    addresses: ends.length,
    groups: Math.max(groups.ingress.length, groups.egress.length),
  };
  const groupVisibility = sightsOf(input, known, groups);
  for (const { addresses, ...pod } of pods) {
    const subject: ProvenSubject = { ...pod, ends: addresses.map(partyOf), known, leftOutNetworks };
    for (const direction of directions) {
      compare(
        input,
        subject,
        direction,
        { groups: groups[direction], groupVisibility: groupVisibility(pod.pod.split('/', 1)[0] ?? '', direction) },
        tally,
      );
      yield;
    }
  }
  return tally;
}

type ProvenDirection = BridgePacket['direction'];
type Tally = { -readonly [K in keyof ProofResult]: ProofResult[K] } & { differences: ProofDifference[] };

/** Classes of groups for the policies of one namespace, in the order of the groups. */
interface GroupVisibility {
  readonly visibility: PeerVisibility;
  readonly numbers: readonly number[];
}

/** Returns the classes of groups, by namespace and direction. */
function sightsOf(
  { nodeName, ownAddresses }: ProofInput,
  objects: NarrowedObjects,
  groups: Readonly<Record<ProvenDirection, readonly PeerGroup[]>>,
): (namespace: string, direction: ProvenDirection) => GroupVisibility {
  const found = new Map<string, GroupVisibility>();
  return (namespace, direction) => {
    const key = `${direction} ${namespace}`;
    const known = found.get(key);
    if (known) return known;
    const visibility = new PeerVisibility(objects, namespace, direction);
    const numbers = groups[direction].map(({ shown }) => visibility.of(shown, isOwnNode(nodeName, ownAddresses, shown)));
    const groupVisibility = { visibility, numbers };
    found.set(key, groupVisibility);
    return groupVisibility;
  };
}

/**
 * Compares the groups for one pod. The bridge is evaluated once for groups that its flows treat alike, and compared once for groups that
 * the policies treat alike.
 */
function compare(
  input: ProofInput,
  subject: ProvenSubject,
  direction: ProvenDirection,
  { groups, groupVisibility }: { readonly groups: readonly PeerGroup[]; readonly groupVisibility: GroupVisibility },
  tally: Tally,
): void {
  const policiesFor = policiesByClass(subject, direction, groupVisibility);
  const walked = new Map<string, Walked>();
  const compared = new Map<Walked['outcomes'], Map<number, Tallied>>();
  const packets = groups.flatMap((group, at) => packetsOf(input, subject, direction, group).map((asked) => ({ group, at, asked })));
  for (const { group, at, asked } of packets) {
    const way = `${group.likeness} ${asked.packet.from}`;
    const said = (asked.isItself ? undefined : walked.get(way)) ?? input.bytes.decide(asked.packet);
    if (!asked.isItself) walked.set(way, said);
    const byVisibility = compared.get(said.outcomes) ?? new Map<number, Tallied>();
    compared.set(said.outcomes, byVisibility);
    const number = groupVisibility.numbers[at] ?? -1;
    const visibility = asked.isItself ? -1 : number;
    const cells = () => cellsOf(input, subject, direction, { ...asked, group, said, selection: policiesFor(number) });
    const known = byVisibility.get(visibility) ?? summaryOf(cells());
    byVisibility.set(visibility, known);
    tally.cells += known.cells;
    tally.allowed += known.allowed;
    tally.denied += known.denied;
    tally.closed += known.closed;
    if (known.differ === 0) continue;
    tally.differencesTotal += known.differ;
    for (const { isEqual, ...difference } of cells())
      if (!isEqual && tally.differences.length < DIFFERENCES_MAX) tally.differences.push(difference);
  }
}

/** Returns the policies that matter to a pod, by the class of the other end's address. */
function policiesByClass({ pod, known, ends }: ProvenSubject, direction: ProvenDirection, { visibility }: GroupVisibility) {
  const own = ends.find(({ party }) => party.is === 'pod')?.party;
  if (own?.is !== 'pod') return () => noPolicies;
  const narrowed = new NarrowedPolicies(known.policiesOf(pod.split('/', 1)[0] ?? '').networkPolicies, own.pod, direction);
  return (number: number): PolicySelection => narrowed.of(visibility.matchedBy(number));
}

type Tallied = Readonly<Record<'cells' | 'allowed' | 'denied' | 'closed' | 'differ', number>>;

function summaryOf(cells: Iterable<Cell>): Tallied {
  const sum = { cells: 0, allowed: 0, denied: 0, closed: 0, differ: 0 };
  for (const { bridge, isEqual } of cells) {
    sum.cells++;
    if (bridge === 'allow') sum.allowed++;
    else sum.denied++;
    if (bridge === 'closed') sum.closed++;
    if (!isEqual) sum.differ++;
  }
  return sum;
}

const directions = ['ingress', 'egress'] as const;
const nothing = { cells: 0, allowed: 0, denied: 0, closed: 0, differencesTotal: 0 };

/** Local pod with its lookup data. */
interface ProvenSubject extends Omit<ProvenPod, 'addresses'> {
  readonly ends: readonly ProbedEnd[];
  readonly known: NarrowedObjects;
  readonly leftOutNetworks: LeftOutClusterNetworks;
}

/**
 * Returns the owner of an address. The Node object of this node may list fewer addresses than its interfaces have; the others belong to the
 * node too.
 */
function partyWith({ objects, nodeName, ownAddresses }: ProofInput, known: NarrowedObjects, address: string): PeerParty {
  const party = whoHas(known.forAddress(address), address);
  if (party.is === 'pod' || party.is === 'node' || !ownAddresses?.has(parseIp(address).text)) return party;
  const node = objects.nodes.find(({ metadata }) => metadata.name === nodeName);
  return node ? { is: 'node', node } : party;
}

/**
 * Reports whether packets with this source reach pods of this node. The source address given to external traffic forwarded to other nodes
 * does not, nor do addresses of this node's Node object that no interface has.
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

interface AskedPacket {
  readonly packet: BridgePacket;
  readonly own: ProbedEnd;
  /** True if the pod connects to itself. */
  readonly isItself: boolean;
}

/** Returns the packets of a group: none if the pod has no address of the family, and another through a Service for the pod itself. */
function packetsOf(
  { nodeName }: ProofInput,
  { ofPort, ends }: ProvenSubject,
  direction: ProvenDirection,
  { shown: { ip: peer, party } }: PeerGroup,
): readonly AskedPacket[] {
  const own = ends.find(({ ip }) => ip.family === peer.family);
  if (!own) return [];
  const isItself = ends.some(({ ip }) => ip.text === peer.text);
  const base = { direction, ofPort, own: own.ip };
  const direct = { packet: { ...base, peer, from: wayOf(party, nodeName) }, own, isItself };
  if (!isItself) return [direct];
  const received = direction === 'ingress' ? serviceNextHop[peer.family] : peer;
  const throughService: AskedPacket = { packet: { ...base, peer: received, hairpin: true }, own, isItself };
  // A pod's own address as the source of a received packet is always translated.
  return direction === 'ingress' ? [throughService] : [direct, throughService];
}

interface AskedCells extends AskedPacket {
  readonly group: PeerGroup;
  readonly said: Walked;
  readonly selection: PolicySelection;
}

function* cellsOf(
  input: ProofInput,
  subject: ProvenSubject,
  direction: ProvenDirection,
  { packet, own, group, said, selection }: AskedCells,
): Generator<Cell> {
  const { nodeName, ownAddresses, mode, unknownPeers = 'closed' } = input;
  const { way, outcomes } = said;
  const { shown, size } = group;
  const { ip: peer, party } = shown;
  const isIngress = direction === 'ingress';
  const parties = isIngress ? { source: party, destination: own.party } : { source: own.party, destination: party };
  const throughService = packet.hairpin === true;
  const tuple = {
    throughService,
    unknownPeers,
    ...(isIngress ? { from: peer.text, to: own.ip.text } : { from: own.ip.text, to: peer.text }),
  };
  const sides = { own: own.party, peer: party, policies: selection.policies };
  const asked = questionOf(subject, direction, sides, isOwnNode(nodeName, ownAddresses, shown));
  const { clusterNetworkPolicies = [] } = subject.known.policiesOf('');
  const proven: ProvenPolicies = { networkPolicies: selection.policies, clusterNetworkPolicies };
  const mayBeDenied = !isIngress && subject.leftOutNetworks.has(shown);
  const boundaries = portBoundaries(proven, parties.destination.is === 'pod' ? parties.destination.pod : undefined);
  for (const outcome of outcomes)
    for (const { first, last } of cut(outcome, boundaries[outcome.protocol])) {
      const { protocol } = outcome;
      const named = protocol === 'other' ? 'GRE' : protocol;
      const end = asked({ ...tuple, protocol: named, ...(boundaries[protocol] ? { port: first } : {}) }, parties);
      const passes = mode === 'audit' && outcome.decided !== 'none' && outcome.verdict === 'allow';
      const answers = mayBeDenied ? undefined : answersOf(input, subject, packet, outcome, end);
      const bridge = answers?.bridge ?? (passes ? outcome.decided : outcome.verdict);
      const policies = answers?.policies ?? end?.verdict ?? 'deny';
      const isEqual = (bridge === 'closed' ? 'deny' : bridge) === policies || (bridge === 'deny' && mayBeDenied);
      const [by, flows] = isEqual ? [[], []] : [namesOf(end, selection), [...way, ...outcome.way]];
      const where = { pod: subject.pod, direction, peer: peer.text, morePeers: size - 1, protocol, first, last };
      yield { ...where, bridge, policies, by, flows, isEqual };
    }
}

/**
 * Returns what bridge and policies answer to the sender of a packet that both deny, if the answers differ. Senders that are not pods never
 * get one; whether the other end is known long enough decides the agent, not the flows.
 */
function answersOf(
  { mode, denied }: ProofInput,
  { holds = 'policies' }: ProvenSubject,
  { direction, from, hairpin }: BridgePacket,
  outcome: Walked['outcomes'][number],
  end: ReturnType<Question>,
): Readonly<Record<'bridge' | 'policies', 'deny' | 'reject'>> | undefined {
  if (mode !== 'enforce' || denied === undefined || holds !== 'policies') return undefined;
  if (outcome.verdict !== 'deny' || end?.verdict !== 'deny') return undefined;
  const mayBeAnswered = direction === 'egress' || (hairpin !== true && (from === 'pod' || from === 'tunnel'));
  const policies = mayBeAnswered && (end.answer ?? denied) === 'reject' ? 'reject' : 'deny';
  const bridge = outcome.isRefused ? 'reject' : 'deny';
  return bridge === policies ? undefined : { bridge, policies };
}

type Question = (
  ...of: Tail<Parameters<typeof judge>>
) => Pick<EndVerdict, 'verdict' | 'allowedBy' | 'isolatedBy' | 'decidedBy' | 'answer'> | undefined;
type Tail<T extends readonly unknown[]> = T extends [unknown, ...infer Rest] ? Rest : never;

/** Returns the reference, or its replacement for a pod to which policies do not apply. */
function questionOf(
  { known, holds = 'policies' }: ProvenSubject,
  direction: ProvenDirection,
  { own, peer, policies }: { readonly own: PeerParty; readonly peer: PeerParty; readonly policies: readonly NetworkPolicyObject[] },
  isFromOwnNode: boolean,
): Question {
  const noRules = { allowedBy: [], isolatedBy: [] };
  if (holds !== 'policies') {
    const isItself = own.is === 'pod' && peer.is === 'pod' && own.pod === peer.pod;
    return () => ({ verdict: holds === 'everything' || isItself || isFromOwnNode ? 'allow' : 'deny', ...noRules });
  }
  if (own.is !== 'pod') return () => undefined;
  const objects = known.forPolicies(policies, own.pod.metadata.namespace, peer.is === 'pod' ? peer.pod.metadata.namespace : undefined);
  return (...of) => judge(objects, ...of)[direction];
}

/** Returns how a packet of the other end reaches the pod. */
function wayOf(party: PeerParty, nodeName: string): NonNullable<BridgePacket['from']> {
  if (party.is === 'pod') return party.pod.spec.nodeName === nodeName ? 'pod' : 'tunnel';
  if (party.is === 'node') return party.node.metadata.name === nodeName ? 'gateway' : 'tunnel';
  return party.is === 'external' ? 'gateway' : 'tunnel';
}

function namesOf(end: ReturnType<Question>, { isolating, ruleName }: PolicySelection): readonly string[] {
  if (!end) return [];
  if (end.decidedBy !== undefined) return [end.decidedBy];
  return end.allowedBy.length > 0 ? end.allowedBy.map(ruleName) : end.isolatedBy.length > 0 ? isolating() : [];
}

function cut({ first, last }: { readonly first: number; readonly last: number }, boundaries: readonly number[] = []) {
  const starts = [first, ...boundaries.filter((port) => port > first && port <= last)];
  return starts.map((start, at) => ({ first: start, last: (starts[at + 1] ?? last + 1) - 1 }));
}
