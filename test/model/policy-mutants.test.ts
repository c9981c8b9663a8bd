import { setImmediate } from 'node:timers/promises';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { addressBits, ipFromValue, parseIp } from '../../src/base/net/ip.ts';
import { nothing } from '../../src/dataplane/desired/host-entries.ts';
import { ownerOf } from '../../src/dataplane/pipeline/cookie.ts';
import type { Flow } from '../../src/dataplane/pipeline/flow.ts';
import { formatFlow } from '../../src/dataplane/pipeline/format.ts';
import { tables } from '../../src/dataplane/pipeline/tables.ts';
import { serviceNextHop } from '../../src/dataplane/pipeline/well-known.ts';
import { decodeFlowEntry, encodeBridgeEntries } from '../../src/dataplane/targets/bridge/bridge-entry.ts';
import { PolicyEngine } from '../../src/policy/engine/policy-engine.ts';
import { interpret, type PolicyPacket } from '../../src/policy/matrix/interpret.ts';
import { type PolicyDirection, type PolicyMatrix, policyDirections } from '../../src/policy/matrix/matrix.ts';
import { PolicyBytes } from '../../src/policy/verify/flow-reader/flow-reader.ts';
import { timeoutOf } from '../support/batches.ts';
import { generator } from '../support/random.ts';
import { WrittenPolicy } from './policy-flow-run.ts';
import { networkOf, type PolicyMutation, policyMutations, tierMutations } from './policy-mutations.ts';
import { provenNode, put } from './policy-proof.ts';
import { PolicySwitch } from './policy-switch.ts';
import { policyHistories, probedAddresses, probedPorts, tieredHistories } from './random-policies.ts';

/*
 * Quality of the oracles for policy flows: both of them, the model of a switch and the independent interpreter of bytes, detect every
 * change to the flows of a node that changes the fate of any packet. Equivalent changes are recognised.
 */

const seed = Number(process.env['SEINE_TEST_SEED'] ?? Date.now() % 1_000_000);
const mutants = Number(process.env['SEINE_TEST_POLICY_MUTANTS'] ?? 40);
/** A run of minutes prints the equivalent mutants, and requires a number of each kind. */
const isLong = mutants >= 300;
const ofEachKind = mutants >= 1_000 ? 30 : isLong ? 10 : 0;
/** The model is slow: of more packets than this, it checks a regular sample. */
const modelledMost = 2_000;

/** A node with its correct flows. */
interface MutatedNode {
  readonly matrix: PolicyMatrix;
  readonly policySwitch: PolicySwitch;
  readonly edges: readonly string[];
  readonly bytes: PolicyBytes;
}

function nodeOf(objects: readonly Parameters<typeof put>[1][]): MutatedNode {
  const engine = new PolicyEngine(provenNode);
  for (const each of objects) put(engine, each);
  const written = new WrittenPolicy(engine);
  written.update();
  const policySwitch = new PolicySwitch(engine.matrix, written);
  const edges = [...new Set([...probedAddresses, ...edgesOf(policySwitch.flows)])];
  return { matrix: engine.matrix, policySwitch, edges, bytes: bytesOf(policySwitch.flows) };
}

/** The first and last address of each network, and both neighbours. */
function edgesOf(flows: readonly Flow[]): readonly string[] {
  return flows.flatMap((flow) => {
    const cidr = networkOf(flow);
    if (!cidr) return [];
    const bits = BigInt(addressBits(cidr.family));
    const size = 1n << (bits - BigInt(cidr.prefixLength));
    const first = cidr.network.value;
    return [first - 1n, first, first + size / 2n, first + size - 1n, first + size]
      .filter((value) => value >= 0n && value < 1n << bits)
      .map((value) => ipFromValue(cidr.family, value).text);
  });
}

function bytesOf(flows: readonly Flow[]): PolicyBytes {
  const entries = encodeBridgeEntries(ownerOf('node'), { ...nothing, flows });
  return new PolicyBytes([...entries].map(([key, value]) => decodeFlowEntry(key, value)));
}

type Place = Pick<PolicyPacket, 'direction' | 'pod' | 'address' | 'masqueraded' | 'throughService'>;
const ways = { own: [{}, { throughService: true }], node: [{}, { masqueraded: true }], other: [{}] } as const;

/** Local pod × direction × address: all packets of the tables of policy. */
function* placesOf(
  { matrix, policySwitch }: MutatedNode,
  directions: readonly PolicyDirection[],
  addresses: readonly string[],
): Generator<Place> {
  for (const pod of matrix.subjects.keys())
    for (const direction of directions)
      for (const address of addresses)
        for (const way of ways[
          isOwn(matrix, pod, address) ? 'own' : direction === 'ingress' && matrix.ownNode.has(address) ? 'node' : 'other'
        ]) {
          const place = { direction, pod, address, ...way };
          if (policySwitch.reaches({ ...place, protocol: 'GRE' })) yield place;
        }
}

function isOwn({ subjects }: PolicyMatrix, pod: string, address: string): boolean {
  return subjects.get(pod)?.addresses.includes(address) === true;
}

function decided({ matrix, policySwitch }: MutatedNode, bytes: PolicyBytes, place: Place) {
  const { direction, pod, address, masqueraded, throughService } = place;
  const peer = parseIp(address);
  const own = (matrix.subjects.get(pod)?.addresses ?? []).map(parseIp).find(({ family }) => family === peer.family) ?? peer;
  const ofPort = policySwitch.portOf(pod);
  if (throughService) {
    const received = direction === 'ingress' ? serviceNextHop[peer.family] : peer;
    return bytes.decide({ direction, ofPort, own, peer: received, hairpin: true }).outcomes;
  }
  const from = matrix.ownNode.has(address) && !masqueraded ? 'gateway' : 'external';
  return bytes.decide({ direction, ofPort, own, peer, from }).outcomes;
}

interface BytesChange {
  /** A packet for which other flows decide differently by their bytes. */
  readonly packet?: PolicyPacket;
  /** True if it is undefined which of two flows applies. */
  readonly isUndefined: boolean;
}

/** All addresses at which anything begins or ends, with all ports. */
function changeOf(node: MutatedNode, flows: readonly Flow[]): BytesChange {
  const bytes = bytesOf(flows);
  const addresses = [...new Set([...node.edges, ...edgesOf(flows)])];
  for (const place of placesOf(node, policyDirections, addresses)) {
    const [before, after] = [decided(node, node.bytes, place), decided(node, bytes, place)];
    for (const { protocol, first, last, verdict } of after) {
      const was = before.find(
        (each) => each.protocol === protocol && each.first <= last && each.last >= first && isAllowed(each) !== (verdict === 'allow'),
      );
      if (!was) continue;
      const port = protocol === 'ICMP' || protocol === 'other' ? {} : { port: Math.max(first, was.first) };
      const packet = { ...place, protocol: protocol === 'other' ? 'GRE' : protocol, ...port };
      return { packet, isUndefined: bytes.problems.length > 0 };
    }
  }
  return { isUndefined: bytes.problems.length > 0 };
}

function isAllowed({ verdict }: { readonly verdict: string }): boolean {
  return verdict === 'allow';
}

/** Packets that concern the changed rows. */
function packetsAbout(node: MutatedNode, { gone, come }: PolicyMutation): readonly PolicyPacket[] {
  const rows = [...gone, ...come];
  const directions = policyDirections.filter((direction) =>
    rows.some(({ table }) => tables[table].id < tables.route.id === (direction === 'egress')),
  );
  const networks = edgesOf(rows);
  const bounds = rows.flatMap(({ match: { portDst } }) =>
    typeof portDst === 'object' ? [portDst.value, portDst.value + 0xffff - portDst.mask] : [],
  );
  const services = [
    ...(['TCP', 'UDP', 'SCTP'] as const).flatMap((protocol) =>
      [...new Set(bounds.length > 0 ? bounds : probedPorts[protocol])].map((port) => ({ protocol, port })),
    ),
    { protocol: 'ICMP' },
    { protocol: 'GRE' },
  ];
  const places = placesOf(node, directions, networks.length > 0 ? [...new Set(networks)] : probedAddresses);
  const packets = [...places].flatMap((place) => services.map((service) => ({ ...place, ...service })));
  const step = Math.max(1, packets.length / modelledMost);
  return Array.from({ length: Math.min(packets.length, modelledMost) }, (_, at) => packets[Math.floor(at * step)]).flatMap(
    (each) => each ?? [],
  );
}

/**
 * Reports whether the model of a switch decides differently from the matrix with these flows, or cannot know which of two flows applies.
 */
function modelNotices(
  { matrix, policySwitch }: MutatedNode,
  flows: readonly Flow[],
  packets: readonly PolicyPacket[],
): boolean | 'undefined' {
  const verdict = policySwitch.verdictBy(flows);
  try {
    return packets.some((packet) => verdict(packet) !== interpret(matrix, packet).verdict);
  } catch (error) {
    if (error instanceof SeineError && error.message.includes('undefined which')) return 'undefined';
    // An opening packet is looked up as an answer.
    if (error instanceof SeineError && error.message.includes('is of no connection')) return true;
    throw error;
  }
}

const noticedBy = ['noticed by both', 'noticed by the model for the packet of the bytes'] as const;
type Judgement = (typeof noticedBy)[number] | 'changes nothing' | 'MISSED';

/** Verdict of the model alone, and for the packet for which the bytes decide differently. */
function judgementOf(node: MutatedNode, mutation: PolicyMutation): Judgement {
  const flows = mutatedFlows(node.policySwitch.flows, mutation);
  const { packet, isUndefined } = changeOf(node, flows);
  const noticed = modelNotices(node, flows, packetsAbout(node, mutation));
  // An undefined outcome is a difference, too.
  if (noticed) return packet || isUndefined ? 'noticed by both' : 'MISSED';
  if (!packet) return 'changes nothing';
  return modelNotices(node, flows, [packet]) === false ? 'MISSED' : 'noticed by the model for the packet of the bytes';
}

/** A switch has one flow for a table, a priority and a match: the last one. */
function mutatedFlows(flows: readonly Flow[], { gone, come }: PolicyMutation): readonly Flow[] {
  const keyOf = (flow: Flow): string => [...encodeBridgeEntries(ownerOf('node'), { ...nothing, flows: [flow] }).keys()].join();
  const others = come.map((flow) => ({ ...flow, key: keyOf(flow) }));
  const isReplaced = (flow: Flow): boolean =>
    others.some(({ table, priority, key }) => table === flow.table && priority === flow.priority && key === keyOf(flow));
  return [...flows.filter((flow) => !gone.includes(flow) && !isReplaced(flow)), ...come];
}

interface MutantKinds {
  readonly histories: typeof policyHistories;
  readonly mutations: typeof policyMutations;
}

/** Nodes of one seed; for each, one mutant of every possible kind. */
function* mutated({
  histories,
  mutations,
}: MutantKinds): Generator<{ readonly kind: string; readonly node: MutatedNode; readonly mutation: PolicyMutation }> {
  const random = generator(seed);
  const pick = <T>(from: readonly T[]): T | undefined => from[Math.floor(random() * from.length)];
  for (const { objects } of fc.sample(histories, { seed, numRuns: mutants })) {
    const node = nodeOf(objects);
    expect(modelNotices(node, node.policySwitch.flows, packetsAbout(node, { gone: node.policySwitch.flows, come: [] }))).toBe(false);
    for (const [kind, mutate] of Object.entries(mutations)) {
      const mutation = mutate(node.policySwitch.flows, pick);
      if (mutation) yield { kind, node, mutation };
    }
  }
}

it.each<readonly [string, MutantKinds]>([
  ['NetworkPolicies', { histories: policyHistories, mutations: policyMutations }],
  ['policies of all tiers', { histories: tieredHistories, mutations: tierMutations }],
])(`both oracles detect wrong flows of %s (SEINE_TEST_SEED=${seed})`, { timeout: timeoutOf(mutants) }, async (_, kinds) => {
  const found = new Map(Object.keys(kinds.mutations).map((kind) => [kind, new Map<Judgement, number>()]));
  const count = (counts: ReadonlyMap<Judgement, number>, ...of: readonly Judgement[]): number =>
    of.reduce((sum, each) => sum + (counts.get(each) ?? 0), 0);
  const noticed = (counts: ReadonlyMap<Judgement, number>): number => count(counts, ...noticedBy);
  const total = (of: (counts: ReadonlyMap<Judgement, number>) => number): number =>
    [...found.values()].reduce((sum, each) => sum + of(each), 0);
  for (const { kind, node, mutation } of mutated(kinds)) {
    const judgement = judgementOf(node, mutation);
    const changes = () => [
      ...mutation.gone.map((flow) => `- ${formatFlow(flow)}`),
      ...mutation.come.map((flow) => `+ ${formatFlow(flow)}`),
    ];
    expect(judgement, judgement === 'MISSED' ? `${kind}:\n${changes().join('\n')}` : kind).not.toBe('MISSED');
    if (isLong && judgement === 'changes nothing') process.stdout.write(`changes nothing: ${kind}: ${changes().join('; ')}\n`);
    const ofKind = found.get(kind) ?? new Map<Judgement, number>();
    found.set(kind, ofKind.set(judgement, count(ofKind, judgement) + 1));
    const isEnough = [...found.values()].every((counts) => noticed(counts) >= ofEachKind);
    if (isEnough && total(noticed) >= mutants) break;
    await setImmediate();
  }
  for (const [kind, counts] of found)
    process.stdout.write(`${kind}: ${[...counts].map(([what, number]) => `${number} ${what}`).join(', ')}\n`);
  const equal = total((counts) => count(counts, 'changes nothing'));
  process.stdout.write(`${total(noticed)} mutants noticed by two judges; ${equal} more change nothing\n`);
  expect(total(noticed)).toBeGreaterThanOrEqual(mutants);
  expect(total((counts) => count(counts, 'noticed by both'))).toBeGreaterThan(mutants / 2);
  for (const [kind, counts] of found) expect(noticed(counts), kind).toBeGreaterThanOrEqual(ofEachKind);
});
