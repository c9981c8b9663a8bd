import fc from 'fast-check';
import { parseIp } from '../../src/base/net/ip.ts';
import { parseMac } from '../../src/base/net/mac.ts';
import { compileSubject } from '../../src/dataplane/compile/compile-entry.ts';
import type { PodIntent } from '../../src/dataplane/compile/compile-pod.ts';
import { nothing, type Wanted } from '../../src/dataplane/desired/host-entries.ts';
import { type Owner, ownerOf } from '../../src/dataplane/pipeline/cookie.ts';
import { describePacket, type Packet, reversed, tupleKey, tupleOf } from '../../src/dataplane/switch-model/packet.ts';
import type { Output } from '../../src/dataplane/switch-model/switch-model.ts';
import { PolicyEngine } from '../../src/policy/engine/policy-engine.ts';
import type { NetworkPolicyObject, PodObject, PolicyRuleObject } from '../../src/policy/verify/reference/objects.ts';
import { whoHas } from '../../src/policy/verify/reference/parties.ts';
import { judge } from '../../src/policy/verify/reference/reference-verdict.ts';
import { namespaceObject, nodeObject, podObject } from '../support/policy-cluster.ts';
import { type Arrival, answerTo, type Conversation, conversations, nextOf } from './conversation.ts';
import { WrittenPolicy } from './policy-flow-run.ts';
import { nameOf, objectsOf, type PolicyObject, provenNode, put, remove } from './policy-proof.ts';
import { podLabels, policiesWith } from './random-policies.ts';
import { exampleScene, type Scene, wantedByOwner } from './scene.ts';

/*
 * Established connections during policy changes: a connection that is denied now is cut at the next packet of the opening side, the others
 * are unaffected, and one that is allowed again continues.
 */

/** A switch, or the model of one. */
export interface LivingBridge {
  receive(arrival: Arrival): readonly Output[] | Promise<readonly Output[]>;
  /** Resolves when packets match these flows and no others. */
  become(wanted: ReadonlyMap<Owner, Wanted>): void | Promise<void>;
}

/** A node's pods and their events. */
export interface Lifetime {
  readonly policies: readonly NetworkPolicyObject[];
  /** Labels of each pod, in the order of `places`. */
  readonly labels: readonly Readonly<Record<string, string>>[];
  readonly openings: readonly Conversation[];
  /** New policies, and new labels of pods. */
  readonly changes: readonly (readonly LifeChange[])[];
}
type LifeChange = { readonly policy: NetworkPolicyObject } | { readonly pod: number; readonly labels: Readonly<Record<string, string>> };

/** Numbers of observed connections, each counted for every change during its life. */
export interface LivingCounts {
  readonly living: Record<string, number>;
  lived: number;
  wentOn: number;
  stopped: number;
  healed: number;
  /** Number of denied connections that no longer received packets of a server that sends alone. */
  silenced: number;
  /** Packets of other ports of two SCTP endpoints. */
  readonly outsiders: { passed: number; dropped: number };
}

export function noCounts(): LivingCounts {
  return { living: {}, lived: 0, wentOn: 0, stopped: 0, healed: 0, silenced: 0, outsiders: { passed: 0, dropped: 0 } };
}

/** Further options of a lifetime. */
export interface LivingOptions {
  /** Data path of conntrack; userspace if absent. */
  readonly datapath?: 'userspace' | 'kernel';
  /** True if established connections continue whatever policies change. */
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
/** Addresses whose packets leave towards other nodes, and are never answered. */
const unsent = new Set(livingScene.node.podCidrs.map(({ network }) => network.text));

const blocks = ['0.0.0.0/0', '10.0.0.0/8', '10.10.0.0/21', '10.10.4.0/22', '10.10.0.5/32', '192.168.77.0/30', '203.0.113.0/24'];
const blocks6 = ['::/0', 'fd00::/16', 'fd00:10::/48', 'fd00:10:0:1::/64', 'fd00:10::5/128', 'fd00:77::/64', '2001:db8::/32'];
const policy = policiesWith([blocks, blocks6]);

/** @param openings number of attempts; some connections never begin */
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

/** Like `lifetimes`, of SCTP alone and of few addresses, so that many associations are between the same two. */
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

/** The cluster, and the desired state of the bridge for its policies. */
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

  /** Restores the initial state. */
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

  /** Reports whether the local ends allow it to be opened. */
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
 * Opens connections, changes policies during their life, and restores the initial state.
 *
 * @returns errors, in words
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
      for (const outsider of outsidersOf(connection)) {
        const passes = (await bridge.receive(outsider.next)).length > 0;
        counts.outsiders[passes ? 'passed' : 'dropped']++;
        if (passes !== node.allows(outsider)) wrong.push(`${describePacket(outsider.next.packet)}: ${passes ? 'passes' : 'is dropped'}`);
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

/** Connections in which both ends have sent, each from its own port. */
async function opened(bridge: LivingBridge, openings: readonly Conversation[], counts: LivingCounts): Promise<LivingConnection[]> {
  const living: LivingConnection[] = [];
  const used = new Set<string>();
  const isNew = ({ packet }: Arrival): boolean => {
    const sent = tupleOf(packet);
    // With SCTP, ends that have many peers; in the reverse direction it is the same association.
    const ends = sent?.protocol === 'sctp' ? [tupleKey(sent), tupleKey(reversed(sent))].toSorted() : [];
    const client = ends[0] ?? `${sent?.protocol} ${packet.ipSrc?.text} ${sent?.srcPort}`;
    if (used.has(client)) return false;
    used.add(client);
    return true;
  };
  for (const conversation of openings) {
    const { opening } = conversation;
    if (unsent.has(opening.packet.ipSrc?.text ?? '') || !isNew(opening)) continue;
    const [received, ...others] = await bridge.receive(opening);
    const answer = received && others.length === 0 ? answerTo(received) : undefined;
    if (!received || !answer || typeof received.to !== 'number' || isByNodeToItself(opening, received)) continue;
    const next = nextOf(conversation, true);
    const [back] = await bridge.receive(answer);
    const [again] = back ? await bridge.receive(next) : [];
    if (again?.to !== received.to) continue;
    const { protocol, payload, ipDst } = opening.packet;
    const isByService = ipDst?.text !== received.packet.ipDst?.text;
    const tuple = judgedTuple(opening.packet, received.packet);
    living.push({ next, answer: later(answer), deliveredTo: received.to, tuple, isByService, isCut: false });
    const way = isByService ? ' by a Service' : '';
    const kind = `${protocol} ${payload}${way}`;
    counts.living[kind] = (counts.living[kind] ?? 0) + 1;
    counts.lived++;
  }
  return living;
}

/** A pod that reached itself through its node's port: the tests of Services cover it. */
function isByNodeToItself({ inPort, packet }: Arrival, received: Output): boolean {
  return inPort === livingScene.node.gateway.ofPort && packet.ipSrc?.text === received.packet.ipDst?.text;
}

/**
 * With SCTP, packets of the same two ends that do not belong to their association: another port of the answering side, as destination and
 * source.
 */
function outsidersOf({
  next,
  answer,
  deliveredTo,
  tuple,
}: LivingConnection): readonly Pick<LivingConnection, 'next' | 'deliveredTo' | 'tuple'>[] {
  if (tuple.protocol !== 'SCTP') return [];
  const [port, speaking] = [4444, 4445];
  // A pod may have come through the gateway.
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

/** Both ends send once, the opening side first; if neither has to wait for that one, the other sends before, too. */
async function goesOn(
  bridge: LivingBridge,
  connection: LivingConnection,
  isAllowed: boolean,
  counts: LivingCounts,
): Promise<string | undefined> {
  const alone = await sendsAlone(bridge, connection, isAllowed, counts);
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
 * The server sends before its client does. Packets through a Service may continue until the client sends; a cut connection receives nothing
 * before that, whatever policies change meanwhile.
 */
async function sendsAlone(
  bridge: LivingBridge,
  connection: LivingConnection,
  isAllowed: boolean,
  counts: LivingCounts,
): Promise<'well' | 'passes' | 'is dropped'> {
  const { answer, isByService, isCut, tuple } = connection;
  if (tuple.protocol !== 'UDP' && tuple.protocol !== 'ICMP') return 'well';
  const isReceived = (await bridge.receive(answer)).length > 0;
  const isDenied = isCut || !isAllowed;
  if (isDenied && !isReceived) counts.silenced++;
  if (isReceived !== isDenied || (isReceived && isByService && !isCut)) return 'well';
  return isReceived ? 'passes' : 'is dropped';
}
