import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { networkPolicies } from '../../src/kube/network-policy.ts';
import { PolicyEngine } from '../../src/policy/policy-engine.ts';
import { numberRange } from '../../src/policy-flows/number-ranges.ts';
import { interpret } from '../../src/policy-matrix/interpret.ts';
import { batches, timeoutOf } from '../support/batches.ts';
import { WrittenPolicy } from './policy-flow-run.ts';
import { prove, provenNode, put } from './policy-proof.ts';
import { runHistory, statesOf } from './policy-run.ts';
import { PolicySwitch } from './policy-switch.ts';
import { policyHistories, probedAddresses, probedPorts } from './random-policies.ts';

/** Namespaces that share a node's numbers of peers: none of them denies what another one allows. */

const seed = Number(process.env['SEINE_TEST_SEED'] ?? Date.now() % 1_000_000);
const runs = Math.ceil(Number(process.env['SEINE_TEST_POLICY_SETS'] ?? 100) / 10);

interface IngressRule {
  readonly from: readonly object[];
  readonly ports?: readonly object[];
}

function policyOf(namespace: string, name: string, ingress: readonly IngressRule[]) {
  const metadata = { namespace, name, uid: `${namespace}/${name}`, generation: 1 };
  const policy = networkPolicies.project({ metadata, spec: { podSelector: {}, policyTypes: ['Ingress'], ingress } });
  if (!policy) throw new Error('no policy');
  return policy;
}

/** One pod of each namespace is on the node. */
function engineOf(namespaces: readonly string[]): PolicyEngine {
  const engine = new PolicyEngine(provenNode);
  engine.putNode({ name: provenNode, podCidrs: ['10.1.0.0/24'], addresses: ['192.168.0.1'] });
  for (const [at, namespace] of namespaces.entries()) {
    engine.putNamespace(namespace, {});
    engine.putPod({ namespace, name: 'web', nodeName: provenNode, podIps: [`10.1.0.${at + 5}`], labels: {}, ports: {} });
  }
  return engine;
}

/** 1,000 rules of one network and one port each. */
function distinctRules(policy: number): readonly IngressRule[] {
  return Array.from({ length: 1_000 }, (_, at) => ({
    from: [{ ipBlock: { cidr: `20.${policy}.${at >> 8}.${at & 255}/32` } }],
    ports: [{ port: 1 + at }],
  }));
}

const shopRule = { from: [{ ipBlock: { cidr: '20.0.0.0/8', except: ['20.4.0.0/16'] } }], ports: [{ port: 443 }] };

function greedyNode(order: readonly ('greedy' | 'shop')[]): PolicyEngine {
  const engine = engineOf(['greedy', 'shop']);
  for (const namespace of order) {
    if (namespace === 'shop') engine.putPolicy(policyOf('shop', 'web', [shopRule]));
    else for (let at = 0; at < 5; at++) engine.putPolicy(policyOf('greedy', `p${at}`, distinctRules(at)));
  }
  return engine;
}

type Probe = readonly [pod: string, address: string, port: number];

/** Every rule of the greedy namespace, and what the other one's rule says at its ends. */
const probes: readonly Probe[] = [
  ...Array.from({ length: 5_000 }, (_, at): Probe => {
    const rule = at % 1_000;
    return ['greedy/web', `20.${Math.floor(at / 1_000)}.${rule >> 8}.${rule & 255}`, 1 + rule];
  }),
  ...['20.0.0.7', '20.3.3.231', '20.4.0.7', '20.9.9.9', '21.0.0.1'].map((address): Probe => ['shop/web', address, 443]),
];

/** @returns verdicts of the matrix, which are those of the switch */
function verdicts(engine: PolicyEngine, written: WrittenPolicy): readonly string[] {
  const { verdict } = new PolicySwitch(engine.matrix, written);
  const packets = probes.map(([pod, address, port]) => ({ direction: 'ingress', pod, address, protocol: 'TCP', port }) as const);
  const byMatrix = packets.map((packet) => interpret(engine.matrix, packet).verdict);
  for (const [at, packet] of packets.entries()) if (at % 250 === 0 || at >= 5_000) expect(verdict(packet)).toBe(byMatrix[at]);
  return byMatrix;
}

describe('a namespace whose rules distinguish more networks than there are numbers', { timeout: 120_000 }, () => {
  it('is denied what exceeds its share, and named; another one is served, also after the loss of all flows and a restart', () => {
    const engine = greedyNode(['greedy', 'shop']);
    const written = new WrittenPolicy(engine);
    written.update();
    const served = verdicts(engine, written);
    expect(served.slice(-5)).toEqual(['allow', 'allow', 'deny', 'allow', 'deny']);
    expect(served.slice(0, 5_000).filter((verdict) => verdict === 'allow').length).toBeGreaterThan(3_900);
    expect(written.flows.problems).toEqual([]);
    expect(engine.shortages.map(({ direction, namespace }) => [direction, namespace])).toEqual([['ingress', 'greedy']]);
    // Agents that begin with the flows, and without them, and learn of the policies in another order.
    for (const held of [written.entries(), new Map()]) {
      const restarted = greedyNode(['shop', 'greedy']);
      const again = new WrittenPolicy(restarted, held);
      again.update();
      expect(again.flows.problems).toEqual([]);
      expect(verdicts(restarted, again)).toEqual(served);
      expect(restarted.shortages).toEqual(engine.shortages);
    }
  });

  it('is served whole once it asks for less', () => {
    const engine = greedyNode(['greedy', 'shop']);
    const written = new WrittenPolicy(engine);
    written.update();
    expect(engine.shortages.length).toBe(1);
    for (let at = 2; at < 5; at++) engine.removePolicy(`greedy/p${at}`);
    written.update();
    expect(engine.shortages).toEqual([]);
    expect(verdicts(engine, written).slice(0, 2_000)).toEqual(new Array(2_000).fill('allow'));
  });
});

it('sets that are served leave numbers for those that replace others', () => {
  const engine = greedyNode(['greedy']);
  engine.update();
  const coarse = new Set([...engine.matrix.ingress.identities.values()].map(({ coarse: { id } }) => id));
  expect(coarse.size).toBeGreaterThan(3_900);
  expect(coarse.size).toBeLessThan(numberRange('coarse').last - 64);
});

it(`with few numbers a matrix depends on the objects alone, and allows nothing that policies deny (SEINE_TEST_SEED=${seed})`, {
  timeout: timeoutOf(runs),
}, async () => {
  let shortages = 0;
  for await (const batch of batches('few numbers', { seed, runs }))
    fc.assert(
      fc.property(policyHistories, fc.integer({ min: 0, max: 4 }), (history, most) => {
        const { differences } = runHistory(() => new PolicyEngine(provenNode, most), history);
        expect(differences.filter((each) => !isDenied(each)).slice(0, 3)).toEqual([]);
        const engine = new PolicyEngine(provenNode, most);
        const written = new WrittenPolicy(engine);
        let set: Parameters<typeof prove>[0] = new Map();
        for (set of statesOf(history, engine)) written.update();
        for (const direction of ['ingress', 'egress'] as const) {
          const sets = new Set([...engine.matrix[direction].identities.values()].map(({ coarse }) => coarse.id));
          sets.delete(0);
          expect(sets.size).toBeLessThanOrEqual(most);
        }
        const { verdict } = new PolicySwitch(engine.matrix, written);
        const proof = prove(set, engine.matrix, probedAddresses, probedPorts, { verdict, every: 11 });
        expect(proof.differences.filter((each) => !isDenied(each)).slice(0, 3)).toEqual([]);
        if (engine.shortages.length > 0) shortages++;
        else expect(proof.differences).toEqual([]);
        const restarted = new PolicyEngine(provenNode, most);
        for (const each of [...set.values()].toReversed()) put(restarted, each);
        restarted.update();
        expect(restarted.shortages).toEqual(engine.shortages);
      }),
      { seed: batch.seed, numRuns: batch.runs, endOnFailure: true },
    );
  expect(shortages).toBeGreaterThan(0);
});

/** The matrix denies what policies allow, for want of numbers. */
function isDenied(difference: string): boolean {
  return /: matrix \{"verdict":"deny".*, reference \{.*"verdict":"allow"/.test(difference);
}
