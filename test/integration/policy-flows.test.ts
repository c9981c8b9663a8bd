import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ownerOf } from '../../src/pipeline/cookie.ts';
import type { Flow } from '../../src/pipeline/flow.ts';
import { PolicyEngine } from '../../src/policy/policy-engine.ts';
import type { PolicyPacket } from '../../src/policy-matrix/interpret.ts';
import { encodeBridgeEntries } from '../../src/reconcile/bridge-entry.ts';
import { BridgeTarget } from '../../src/reconcile/bridge-target.ts';
import { nothing } from '../../src/wanted/wanted.ts';
import { WrittenPolicy } from '../model/policy-flow-run.ts';
import { nameOf, type PolicyObject, type ProofResult, prove, provenNode, put } from '../model/policy-proof.ts';
import { endOf, PolicySwitch } from '../model/policy-switch.ts';
import { type PolicyHistory, policyHistories, probedAddresses, probedPorts } from '../model/random-policies.ts';
import { flowsOf, OpenFlowBridge } from '../support/openflow-bridge.ts';
import { trace } from '../support/trace.ts';
import { Unixctl } from '../support/unixctl.ts';

/*
 * The flows of policy on a real switch: what it would do with a packet, against the reference, the matrix and the model of a switch.
 */

const seed = Number(process.env['SEINE_TEST_SEED'] ?? Date.now() % 1_000_000);
/** Clusters of which neither much nor little is allowed; a run of hours has every three-hundredth of its clusters here. */
const clusters = Math.max(3, Math.floor(Number(process.env['SEINE_TEST_POLICY_SETS'] ?? 0) / 300));
/** One of so many probes is asked of the switch. */
const every = 5;

let bridge: OpenFlowBridge;
let control: Unixctl;
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

/** A cluster with what its policies say, by the judges that need no switch. */
interface JudgedCluster extends Pick<ProofResult, 'differences'> {
  readonly policySwitch: PolicySwitch;
  readonly probes: readonly PolicyProbe[];
  readonly allowed: number;
}

function judged({ objects, changes }: PolicyHistory): JudgedCluster {
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
    const said = policySwitch.verdict(packet);
    if (said !== undefined) probes.push({ packet, verdict: said });
    return said;
  };
  const { differences } = prove(set, engine.matrix, probedAddresses, probedPorts, { verdict, every });
  return { policySwitch, probes, differences, allowed: probes.filter((probe) => probe.verdict === 'allow').length };
}

/** The first clusters of a seed in which both ends of a question are common. */
function* judgedClusters(): Generator<JudgedCluster> {
  let left = clusters;
  for (const history of fc.sample(policyHistories, { seed, numRuns: 40 * clusters })) {
    const cluster = judged(history);
    expect(cluster.differences.slice(0, 3)).toEqual([]);
    const share = cluster.allowed / cluster.probes.length;
    if (!(share > 0.3 && share < 0.7)) continue;
    yield cluster;
    if (--left === 0) return;
  }
  throw new Error('too few clusters in which much is allowed and much is denied');
}

async function hold(flows: readonly Flow[]): Promise<void> {
  const connection = await bridge.connect();
  await bridge.empty(connection);
  const entries = encodeBridgeEntries(ownerOf('node'), { ...nothing, flows });
  await new BridgeTarget(connection).apply({ put: new Map(entries), remove: new Set() }, bridge.signal);
  expect(await flowsOf(connection, bridge.signal)).toHaveLength(entries.size);
  bridge.disconnect();
}

it(`a switch does what policies say (SEINE_TEST_SEED=${seed})`, { timeout: clusters * 60_000 }, async () => {
  const total = { allowed: 0, denied: 0, ipv4: 0, ipv6: 0 };
  for (const { policySwitch, probes } of judgedClusters()) {
    await hold(policySwitch.flows);
    for (const { packet, verdict } of probes) {
      const arrival = policySwitch.arrivalOf(packet);
      if (!arrival) continue;
      const { tables, text } = await trace(control, arrival, { states: [], ctMark: 0, dpHash: 1 });
      const does = endOf(packet, tables);
      if (does !== verdict) throw new Error(`${JSON.stringify(packet)}: policies ${verdict}, switch ${does}\n${text}`);
      total[verdict === 'allow' ? 'allowed' : 'denied']++;
      total[packet.address.includes(':') ? 'ipv6' : 'ipv4']++;
    }
  }
  const traced = total.allowed + total.denied;
  process.stdout.write(`${traced} probes of ${clusters} clusters: ${JSON.stringify(total)}\n`);
  expect(Math.min(total.allowed, total.denied) / traced).toBeGreaterThan(0.3);
  expect(Math.min(total.ipv4, total.ipv6) / traced).toBeGreaterThan(0.2);
});
