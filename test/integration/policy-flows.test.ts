import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { nothing } from '../../src/dataplane/desired/host-entries.ts';
import { ownerOf } from '../../src/dataplane/pipeline/cookie.ts';
import type { Flow } from '../../src/dataplane/pipeline/flow.ts';
import { type BridgeKey, type BridgeValue, encodeBridgeEntries } from '../../src/dataplane/targets/bridge/bridge-entry.ts';
import { BridgeTarget } from '../../src/dataplane/targets/bridge/bridge-target.ts';
import { PolicyEngine } from '../../src/policy/engine/policy-engine.ts';
import type { PolicyPacket } from '../../src/policy/matrix/interpret.ts';
import { WrittenPolicy } from '../model/policy-flow-run.ts';
import { nameOf, type PolicyObject, type ProofResult, prove, provenNode, put } from '../model/policy-proof.ts';
import { statesOf } from '../model/policy-run.ts';
import { endOf, PolicySwitch } from '../model/policy-switch.ts';
import { type PolicyHistory, policyHistories, probedAddresses, probedPorts, tieredHistories } from '../model/random-policies.ts';
import { batches, timeoutOf } from '../support/batches.ts';
import { flowsOf, OpenFlowBridge } from '../support/openflow-bridge.ts';
import { generator } from '../support/random.ts';
import { trace } from '../support/trace.ts';
import { Unixctl } from '../support/unixctl.ts';

/*
 * The flows of policy on a real switch: its verdict for a packet, compared with the reference, the matrix and the model of a switch.
 */

const seed = Number(process.env['SEINE_TEST_SEED'] ?? Date.now() % 1_000_000);
const sets = Number(process.env['SEINE_TEST_POLICY_SETS'] ?? 12);
/** Clusters with a mixture of allowed and denied traffic, and many probes. */
const clusters = Math.max(3, Math.floor(sets / 300));
/** One of this number of probes is sent to OVS. */
const every = 5;
/** Number of probes of each verdict after each change, in every other cluster. */
const ofEachVerdict = 4;

let bridge: OpenFlowBridge;
let control: Unixctl;
let held: ReadonlyMap<BridgeKey, BridgeValue> = new Map();
beforeAll(async () => {
  bridge = new OpenFlowBridge();
  control = await Unixctl.open(bridge.ovs.runDir);
});
afterAll(async () => {
  control?.close();
  await bridge?.stop();
});

interface PolicyProbe {
  readonly packet: PolicyPacket;
  readonly verdict: 'allow' | 'deny';
}

/** A cluster with the verdicts of its policies, from the oracles that need no switch. */
interface EvaluatedCluster extends Pick<ProofResult, 'differences'> {
  readonly policySwitch: PolicySwitch;
  readonly probes: readonly PolicyProbe[];
  readonly allowed: number;
}

function evaluate({ objects, changes }: PolicyHistory): EvaluatedCluster {
  const engine = new PolicyEngine(provenNode);
  const written = new WrittenPolicy(engine);
  const set = new Map<string, PolicyObject>();
  const steps = changes.flatMap((each) => each.flatMap((step) => ('put' in step ? [step.put] : [])));
  for (const each of [...objects, ...steps]) {
    set.set(nameOf(each), each);
    put(engine, each);
  }
  written.update();
  const policySwitch = new PolicySwitch(engine.matrix, written);
  const probes: PolicyProbe[] = [];
  const verdict = (packet: PolicyPacket) => {
    const found = policySwitch.verdict(packet);
    if (found !== undefined) probes.push({ packet, verdict: found });
    return found;
  };
  const { differences } = prove(set, engine.matrix, probedAddresses, probedPorts, { verdict, every });
  return { policySwitch, probes, differences, allowed: probes.filter((probe) => probe.verdict === 'allow').length };
}

/** The first clusters of a seed in which both verdicts are common. */
function* evaluatedClusters(histories: typeof policyHistories): Generator<EvaluatedCluster> {
  let left = clusters;
  for (const history of fc.sample(histories, { seed, numRuns: 40 * clusters })) {
    const cluster = evaluate(history);
    expect(cluster.differences.slice(0, 3)).toEqual([]);
    const share = cluster.allowed / cluster.probes.length;
    if (!(share > 0.3 && share < 0.7)) continue;
    yield cluster;
    if (--left === 0) return;
  }
  throw new Error('too few clusters in which much is allowed and much is denied');
}

/** Changes the bridge from its present flows to these, as the agent does. */
async function hold(flows: readonly Flow[]): Promise<void> {
  const connection = await bridge.connect();
  const entries = encodeBridgeEntries(ownerOf('node'), { ...nothing, flows });
  const put = new Map([...entries].filter(([key, value]) => held.get(key) !== value));
  const remove = new Set([...held.keys()].filter((key) => !entries.has(key)));
  await new BridgeTarget(connection).apply({ put, remove }, bridge.signal);
  held = entries;
  bridge.disconnect();
}

/** Compares OVS's own verdict with that of the oracles. */
async function compare(policySwitch: PolicySwitch, { packet, verdict }: PolicyProbe): Promise<void> {
  const arrival = policySwitch.arrivalOf(packet);
  if (!arrival) return;
  const { tables, text } = await trace(control, arrival, { states: [], ctMark: 0, dpHash: 1 });
  const does = endOf(packet, tables);
  if (does !== verdict) throw new Error(`${JSON.stringify(packet)}: policies ${verdict}, switch ${does}\n${text}`);
}

interface Tally {
  allowed: number;
  denied: number;
  ipv4: number;
  ipv6: number;
}

function count(total: Tally, { packet, verdict }: PolicyProbe): void {
  total[verdict === 'allow' ? 'allowed' : 'denied']++;
  total[packet.address.includes(':') ? 'ipv6' : 'ipv4']++;
}

function expectMixed({ allowed, denied, ipv4, ipv6 }: Tally): void {
  expect(Math.min(allowed, denied) / (allowed + denied)).toBeGreaterThan(0.3);
  expect(Math.min(ipv4, ipv6) / (allowed + denied)).toBeGreaterThan(0.2);
}

const allHistories = [
  ['NetworkPolicies', policyHistories],
  ['policies of all tiers', tieredHistories],
] as const;

it.each(allHistories)(`a switch enforces %s (SEINE_TEST_SEED=${seed})`, { timeout: clusters * 60_000 }, async (_, histories) => {
  const total = { allowed: 0, denied: 0, ipv4: 0, ipv6: 0 };
  for (const { policySwitch, probes } of evaluatedClusters(histories)) {
    await hold(policySwitch.flows);
    const connection = await bridge.connect();
    expect(await flowsOf(connection, bridge.signal)).toHaveLength(held.size);
    bridge.disconnect();
    for (const probe of probes) {
      await compare(policySwitch, probe);
      count(total, probe);
    }
  }
  process.stdout.write(`${total.allowed + total.denied} probes of ${clusters} clusters: ${JSON.stringify(total)}\n`);
  expectMixed(total);
});

/** Some packets after each change, of both verdicts if there are both. */
function* sampledStates(history: PolicyHistory, random: () => number): Generator<Pick<EvaluatedCluster, 'policySwitch' | 'probes'>> {
  const engine = new PolicyEngine(provenNode);
  const written = new WrittenPolicy(engine);
  const some = <T>(from: readonly T[], most: number): readonly T[] =>
    Array.from({ length: most }, () => from[Math.floor(random() * from.length)] as T);
  for (const set of statesOf(history, engine)) {
    written.update();
    const policySwitch = new PolicySwitch(engine.matrix, written);
    const probes: PolicyProbe[] = [];
    const verdict = (packet: PolicyPacket) => {
      const found = policySwitch.verdict(packet);
      if (found !== undefined) probes.push({ packet, verdict: found });
      return found;
    };
    const ports = { TCP: some(probedPorts.TCP, 1), UDP: some(probedPorts.UDP, 1), SCTP: some(probedPorts.SCTP, 1) };
    const { differences } = prove(set, engine.matrix, some(probedAddresses, 6), ports, { verdict, every: 1 });
    expect(differences.slice(0, 3)).toEqual([]);
    const of = (which: PolicyProbe['verdict']) => {
      const those = probes.filter((probe) => probe.verdict === which);
      return some(those, Math.min(ofEachVerdict, those.length));
    };
    yield { policySwitch, probes: [...of('allow'), ...of('deny')] };
  }
}

it.each(allHistories)(
  `a switch enforces %s, of every cluster and change (SEINE_TEST_SEED=${seed})`,
  { timeout: timeoutOf(sets) },
  async (name, histories) => {
    const total = { allowed: 0, denied: 0, ipv4: 0, ipv6: 0 };
    for await (const batch of batches(`clusters of ${name} on a switch`, { seed, runs: sets })) {
      const random = generator(batch.seed);
      for (const history of fc.sample(histories, { seed: batch.seed, numRuns: batch.runs }))
        for (const { policySwitch, probes } of sampledStates(history, random)) {
          await hold(policySwitch.flows);
          for (const probe of probes) {
            await compare(policySwitch, probe);
            count(total, probe);
          }
        }
    }
    process.stdout.write(`${total.allowed + total.denied} probes of ${sets} clusters: ${JSON.stringify(total)}\n`);
    expectMixed(total);
  },
);
