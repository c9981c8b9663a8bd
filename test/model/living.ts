import fc from 'fast-check';
import { parseIp } from '../../src/base/net/ip.ts';
import { parseMac } from '../../src/base/net/mac.ts';
import { compileSubject } from '../../src/dataplane/compile/compile-entry.ts';
import type { PodIntent } from '../../src/dataplane/compile/compile-pod.ts';
import { nothing, type Wanted } from '../../src/dataplane/desired/host-entries.ts';
import { type Owner, ownerOf } from '../../src/dataplane/pipeline/cookie.ts';
import { PolicyEngine } from '../../src/policy/engine/policy-engine.ts';
import type { NetworkPolicyObject, PodObject, PolicyRuleObject } from '../../src/policy/verify/reference/objects.ts';
import { judge, whoHas } from '../../src/policy/verify/reference/reference-verdict.ts';
import { namespaceObject, nodeObject, podObject } from '../support/policy-cluster.ts';
import { type Arrival, answerTo, type Conversation, conversations, nextOf } from './conversation.ts';
import { describePacket, type Packet, reversed, tupleKey, tupleOf } from './packet.ts';
import { WrittenPolicy } from './policy-flow-run.ts';
import { nameOf, objectsOf, type PolicyObject, provenNode, put, remove } from './policy-proof.ts';
import { podLabels, policiesWith } from './random-policies.ts';
import { exampleScene, type Scene, wantedByOwner } from './scene.ts';
import type { Output } from './switch-model.ts';

/*
 * Connections that live while policies change: who may not talk any more is cut at the next packet of the side that opened it, the others
 * notice nothing, and who may again goes on.
 */

/** A switch, or the model of one. */
export interface LivingBridge {
  receive(arrival: Arrival): readonly Output[] | Promise<readonly Output[]>;
  /** Resolves when packets meet these flows and no others. */
  become(wanted: ReadonlyMap<Owner, Wanted>): void | Promise<void>;
}

/** A node's pods and what happens to them. */
export interface Lifetime {
  readonly policies: readonly NetworkPolicyObject[];
  /** Of each pod, in the order of `places`. */
  readonly labels: readonly Readonly<Record<string, string>>[];
  readonly openings: readonly Conversation[];
  /** Policies that come, and labels that a pod gets. */
  readonly changes: readonly (readonly LifeChange[])[];
}
type LifeChange = { readonly policy: NetworkPolicyObject } | { readonly pod: number; readonly labels: Readonly<Record<string, string>> };

/** What was seen of connections, each once for every change that it has lived through. */
export interface LivingCounts {
  readonly living: Record<string, number>;
  lived: number;
  wentOn: number;
  stopped: number;
  healed: number;
  /** Of those that were denied, how many no longer heard a server that alone went on speaking. */
  silenced: number;
  /** Of other ports of two ends that speak SCTP. */
  readonly strangers: { passed: number; dropped: number };
}

export function noCounts(): LivingCounts {
  return { living: {}, lived: 0, wentOn: 0, stopped: 0, healed: 0, silenced: 0, strangers: { passed: 0, dropped: 0 } };
}

/** What else a life depends on. */
export interface LivingOptions {
  /** Whose connection tracker. Absent: the userspace data path's. */
  readonly datapath?: 'userspace' | 'kernel';
  /** What lives goes on, whatever policies say then. */
  readonly keeps?: boolean;
}

const morePods: readonly PodIntent[] = [
  { ofPort: 32786, mac: parseMac('0e:aa:00:00:00:08'), addresses: [parseIp('10.10.0.8'), parseIp('fd00:10::8')] },
  { ofPort: 32787, mac: parseMac('0e:aa:00:00:00:10'), addresses: [parseIp('10.10.1.16'), parseIp('fd00:10::10')] },
];

export const livingScene: Scene = { ...exampleScene, pods: [...exampleScene.pods, ...morePods] };

/** Pods here, in the order of the scene's, and then elsewhere. */
const places = [
  ...livingScene.pods.map(({ addresses }, at) => ({ name: `${['red', 'green', 'blue'][at % 3]}/here${at}`, node: provenNode, addresses })),
  ...livingScene.peers.map(({ name, podCidrs }, at) => ({
    name: `${['green', 'red'][at % 2]}/there${at}`,
    node: name,
    addresses: podCidrs.map(({ network: { text } }) => parseIp(text.includes(':') ? `${text}9` : text.replace(/0$/, '9'))),
  })),
];
const isHere = (at: number): boolean => at < livingScene.pods.length;
/** What the world is given on its way to other nodes, whom nothing answers. */
const unsent = new Set(livingScene.node.podCidrs.map(({ network }) => network.text));

const blocks = ['0.0.0.0/0', '10.0.0.0/8', '10.10.0.0/21', '10.10.4.0/22', '10.10.0.5/32', '192.168.77.0/30', '203.0.113.0/24'];
const blocks6 = ['::/0', 'fd00::/16', 'fd00:10::/48', 'fd00:10:0:1::/64', 'fd00:10::5/128', 'fd00:77::/64', '2001:db8::/32'];
const policy = policiesWith([blocks, blocks6]);

/** @param openings how many are tried; some never begin */
export function lifetimes(openings: number): fc.Arbitrary<Lifetime> {
  const change: fc.Arbitrary<LifeChange> = fc.oneof(
    { weight: 3, arbitrary: policy.map((each) => ({ policy: each })) },
    { weight: 1, arbitrary: fc.record({ pod: fc.nat({ max: places.length - 1 }), labels: podLabels }) },
  );
  return fc.record({
    policies: fc.array(policy, { maxLength: 2 }),
    labels: fc.tuple(...places.map(() => podLabels)),
    openings: fc.array(conversations(livingScene), { minLength: openings, maxLength: openings }),
    changes: fc.array(fc.array(change, { minLength: 2, maxLength: 5 }), { minLength: 1, maxLength: 3 }),
  });
}

/** As `lifetimes`, of SCTP alone and of few addresses, so that many associations are of the same two. */
export function associationLifetimes(openings: number): fc.Arbitrary<Lifetime> {
  const ends = fc.record({
    conversation: conversations(livingScene).filter(({ opening }) => opening.packet.portSrc !== undefined),
    to: fc.nat(),
    portSrc: fc.constantFrom(1, 53, 80, 443, 1000, 2000),
    portDst: fc.constantFrom(1, 53, 80, 443, 1000, 2000),
  });
  const opening = ends.map(({ conversation, to, ...ports }): Conversation => {
    const { tcpFlags: _, ...packet } = conversation.opening.packet;
    const own = places.flatMap(({ addresses }) => addresses.filter(({ family }) => family === packet.payload));
    const ipDst = own[to % own.length];
    const about = { protocol: 'sctp', ethDst: livingScene.node.gateway.mac, ttl: 64, ...ports, ...(ipDst && { ipDst }) } as const;
    return { ...conversation, opening: { ...conversation.opening, packet: { ...packet, ...about } } };
  });
  const ofSctp = ({ metadata, spec }: NetworkPolicyObject): NetworkPolicyObject => {
    const rules = (all: readonly PolicyRuleObject[]): PolicyRuleObject[] =>
      all.map((rule) => ({ ...rule, ...(rule.ports && { ports: rule.ports.map((port) => ({ ...port, protocol: 'SCTP' })) }) }));
    const { ingress, egress } = spec;
    return { metadata, spec: { ...spec, ...(ingress && { ingress: rules(ingress) }), ...(egress && { egress: rules(egress) }) } };
  };
  return lifetimes(1).chain(({ policies, labels, changes }) =>
    fc.array(opening, { minLength: openings, maxLength: openings }).map((all) => ({
      labels,
      openings: all,
      policies: policies.map(ofSctp),
      changes: changes.map((some) => some.map((each) => ('policy' in each ? { policy: ofSctp(each.policy) } : each))),
    })),
  );
}

interface LivingConnection {
  readonly next: Arrival;
  readonly answer: Arrival;
  readonly deliveredTo: number;
  readonly tuple: { readonly from: string; readonly to: string; readonly protocol: string; readonly port?: number };
  readonly isByService: boolean;
  isCut: boolean;
}

/** The cluster, and what its policies want of the bridge. */
class LivingNode {
  readonly #set = new Map<string, PolicyObject>();
  readonly #engine = new PolicyEngine(provenNode);
  readonly #written = new WrittenPolicy(this.#engine);
  readonly #base: ReadonlyMap<Owner, Wanted>;

  constructor({ policies, labels }: Lifetime, { datapath = 'userspace', keeps }: LivingOptions) {
    const lives = keeps ? ({ liveConnections: 'keep' } as const) : {};
    const sees = datapath === 'userspace' ? ({ blindToSctp: true } as const) : {};
    const scene: Scene = { ...livingScene, node: { ...livingScene.node, ...lives, ...sees } };
    this.#base = new Map([...wantedByOwner(scene)].filter(([owner]) => !owner.startsWith('subject/')));
    const { node, peers } = livingScene;
    const text = (all: readonly { readonly text: string }[]) => all.map((each) => each.text);
    this.put({ kind: 'Node', object: nodeObject(provenNode, text(node.podCidrs), text(node.transport)) });
    for (const peer of peers) this.put({ kind: 'Node', object: nodeObject(peer.name, text(peer.podCidrs), text(peer.transport)) });
    for (const name of ['red', 'green', 'blue']) this.put({ kind: 'Namespace', object: namespaceObject(name, { env: name.slice(0, 1) }) });
    for (const at of places.keys()) this.label(at, labels[at] ?? {});
    for (const object of policies) this.put({ kind: 'NetworkPolicy', object });
  }

  put(each: PolicyObject): void {
    this.#set.set(nameOf(each), each);
    put(this.#engine, each);
  }

  label(at: number, labels: Readonly<Record<string, string>>): void {
    const object = podOf(at, labels);
    if (object) this.put({ kind: 'Pod', object });
  }

  /** As it was at first. */
  heal({ policies, labels }: Lifetime): void {
    for (const [name, each] of [...this.#set]) {
      if (each.kind !== 'NetworkPolicy') continue;
      this.#set.delete(name);
      remove(this.#engine, each);
    }
    for (const object of policies) this.put({ kind: 'NetworkPolicy', object });
    for (const at of places.keys()) this.label(at, labels[at] ?? {});
  }

  wanted(): ReadonlyMap<Owner, Wanted> {
    this.#written.update();
    const subjects = livingScene.pods.map(({ ofPort, addresses }, at): readonly [Owner, Wanted] => {
      const classes = this.#written.flows.classesOf(places[at]?.name ?? '');
      if (classes === 'closed') throw new Error(`${places[at]?.name} is closed`);
      return [
        ownerOf('subject', `${ofPort}`),
        { ...nothing, flows: compileSubject({ ofPort, addresses, ...(classes === 'free' ? {} : classes) }) },
      ];
    });
    const policies = [...this.#written.byOwner].map(([owner, flows]) => [owner, { ...nothing, flows }] as const);
    return new Map<Owner, Wanted>([...this.#base, ...subjects, ...policies]);
  }

  /** Whether the ends that are here let it be opened. */
  allows({ next: { inPort }, deliveredTo, tuple }: Pick<LivingConnection, 'next' | 'deliveredTo' | 'tuple'>): boolean {
    const objects = objectsOf(this.#set);
    const isPod = (port: number): boolean => livingScene.pods.some(({ ofPort }) => ofPort === port);
    const parties = { source: whoHas(objects, tuple.from), destination: whoHas(objects, tuple.to) };
    const { egress, ingress } = judge(objects, tuple, parties);
    const denied = [isPod(inPort) && egress, isPod(deliveredTo) && ingress].some((end) => end && end.verdict === 'deny');
    return !denied;
  }
}

function podOf(at: number, labels: Readonly<Record<string, string>>): PodObject | undefined {
  const place = places[at];
  return (
    place &&
    podObject(
      place.name,
      place.addresses.map(({ text }) => text),
      { node: place.node, labels, containers: [{ ports: [{ name: 'http', containerPort: isHere(at) ? 8080 : 443 }] }] },
    )
  );
}

/**
 * Opens connections, changes policies while they live, and puts back what was there.
 *
 * @returns what was wrong, in words
 */
export async function liveThrough(
  bridge: LivingBridge,
  lifetime: Lifetime,
  counts: LivingCounts,
  options: LivingOptions = {},
): Promise<readonly string[]> {
  const node = new LivingNode(lifetime, options);
  await bridge.become(node.wanted());
  const living = await opened(bridge, lifetime.openings, counts);
  const wrong: string[] = [];
  const look = async (): Promise<void> => {
    await bridge.become(node.wanted());
    for (const connection of living) {
      const difference = await goesOn(bridge, connection, options.keeps || node.allows(connection), counts);
      if (difference !== undefined) wrong.push(difference);
      if (options.keeps) continue;
      for (const stranger of strangersOf(connection)) {
        const passes = (await bridge.receive(stranger.next)).length > 0;
        counts.strangers[passes ? 'passed' : 'dropped']++;
        if (passes !== node.allows(stranger)) wrong.push(`${describePacket(stranger.next.packet)}: ${passes ? 'passes' : 'is dropped'}`);
      }
    }
  };
  for (const change of lifetime.changes) {
    for (const [at, each] of change.entries()) {
      if ('policy' in each) {
        const { metadata, spec } = each.policy;
        node.put({ kind: 'NetworkPolicy', object: { metadata: { ...metadata, name: `${metadata.name}-more${at}` }, spec } });
      } else node.label(each.pod, each.labels);
    }
    await look();
  }
  node.heal(lifetime);
  await look();
  return wrong;
}

/** Those that both ends speak on, each from a port of its own. */
async function opened(bridge: LivingBridge, openings: readonly Conversation[], counts: LivingCounts): Promise<LivingConnection[]> {
  const living: LivingConnection[] = [];
  const used = new Set<string>();
  const isNew = ({ packet }: Arrival): boolean => {
    const sent = tupleOf(packet);
    // Of SCTP, ends that speak to many; the other way round it is the same association.
    const ends = sent?.protocol === 'sctp' ? [tupleKey(sent), tupleKey(reversed(sent))].toSorted() : [];
    const client = ends[0] ?? `${sent?.protocol} ${packet.ipSrc?.text} ${sent?.srcPort}`;
    if (used.has(client)) return false;
    used.add(client);
    return true;
  };
  for (const conversation of openings) {
    const { opening } = conversation;
    if (unsent.has(opening.packet.ipSrc?.text ?? '') || !isNew(opening)) continue;
    const [heard, ...others] = await bridge.receive(opening);
    const answer = heard && others.length === 0 ? answerTo(heard) : undefined;
    if (!heard || !answer || typeof heard.to !== 'number' || isByNodeToItself(opening, heard)) continue;
    const next = nextOf(conversation, true);
    const [back] = await bridge.receive(answer);
    const [again] = back ? await bridge.receive(next) : [];
    if (again?.to !== heard.to) continue;
    const { protocol, payload, ipDst } = opening.packet;
    const isByService = ipDst?.text !== heard.packet.ipDst?.text;
    const tuple = judgedTuple(opening.packet, heard.packet);
    living.push({ next, answer: later(answer), deliveredTo: heard.to, tuple, isByService, isCut: false });
    const way = isByService ? ' by a Service' : '';
    const kind = `${protocol} ${payload}${way}`;
    counts.living[kind] = (counts.living[kind] ?? 0) + 1;
    counts.lived++;
  }
  return living;
}

/** A pod that came by its node's port to itself: the tests of Services have it. */
function isByNodeToItself({ inPort, packet }: Arrival, heard: Output): boolean {
  return inPort === livingScene.node.gateway.ofPort && packet.ipSrc?.text === heard.packet.ipDst?.text;
}

/** Of SCTP, what is of the same two ends and not of their association: another port of the one who answers, spoken to and speaking. */
function strangersOf({
  next,
  answer,
  deliveredTo,
  tuple,
}: LivingConnection): readonly Pick<LivingConnection, 'next' | 'deliveredTo' | 'tuple'>[] {
  if (tuple.protocol !== 'SCTP') return [];
  const [port, speaking] = [4444, 4445];
  // A pod may have come by the gateway.
  const opener = livingScene.pods.find(({ addresses }) => addresses.some(({ text }) => text === tuple.from))?.ofPort ?? next.inPort;
  const back = { from: tuple.to, to: tuple.from, protocol: 'SCTP', port: next.packet.portSrc ?? 0 };
  return [
    { next: { ...next, packet: { ...next.packet, portDst: port } }, deliveredTo, tuple: { ...tuple, port } },
    { next: { ...answer, packet: { ...answer.packet, portSrc: speaking } }, deliveredTo: opener, tuple: back },
  ];
}

function later({ inPort, packet }: Arrival): Arrival {
  return { inPort, packet: packet.tcpFlags === 'syn-ack' ? { ...packet, tcpFlags: 'ack-back' } : packet };
}

function judgedTuple({ ipSrc, protocol = 'gre' }: Packet, { ipDst, portDst }: Packet): LivingConnection['tuple'] {
  const names: Readonly<Record<string, string>> = { tcp: 'TCP', udp: 'UDP', sctp: 'SCTP', icmp: 'ICMP', icmp6: 'ICMP' };
  const port = portDst === undefined ? {} : { port: portDst };
  return { from: ipSrc?.text ?? '', to: ipDst?.text ?? '', protocol: names[protocol] ?? 'GRE', ...port };
}

/** Both ends speak once, the one who opened it first; where nobody has to wait for that one, the other speaks before, too. */
async function goesOn(
  bridge: LivingBridge,
  connection: LivingConnection,
  isAllowed: boolean,
  counts: LivingCounts,
): Promise<string | undefined> {
  const alone = await speaksAlone(bridge, connection, isAllowed, counts);
  const asked = (await bridge.receive(connection.next)).length > 0;
  const answered = (await bridge.receive(connection.answer)).length > 0;
  if (isAllowed && connection.isCut) counts.healed++;
  if (isAllowed) counts.wentOn++;
  else counts.stopped++;
  connection.isCut = !isAllowed;
  if (alone === 'well' && asked === isAllowed && answered === isAllowed) return undefined;
  const does = `alone ${alone}, asked ${asked ? 'goes on' : 'is dropped'}, answered ${answered ? 'goes on' : 'is dropped'}`;
  return `${describePacket(connection.next.packet)}: policies ${isAllowed ? 'allow' : 'deny'} ${JSON.stringify(connection.tuple)}; ${does}`;
}

/**
 * The server speaks before its client does. What goes by a Service may go on until the client speaks; what was cut is not heard before
 * that, whatever policies say meanwhile.
 */
async function speaksAlone(
  bridge: LivingBridge,
  connection: LivingConnection,
  isAllowed: boolean,
  counts: LivingCounts,
): Promise<'well' | 'passes' | 'is dropped'> {
  const { answer, isByService, isCut, tuple } = connection;
  if (tuple.protocol !== 'UDP' && tuple.protocol !== 'ICMP') return 'well';
  const isHeard = (await bridge.receive(answer)).length > 0;
  const isDenied = isCut || !isAllowed;
  if (isDenied && !isHeard) counts.silenced++;
  if (isHeard !== isDenied || (isHeard && isByService && !isCut)) return 'well';
  return isHeard ? 'passes' : 'is dropped';
}
