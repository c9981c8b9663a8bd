import fc from 'fast-check';
import { expect, it } from 'vitest';
import { PolicyEngine } from '../../src/policy/engine/policy-engine.ts';
import { batches, timeoutOf } from '../support/batches.ts';
import { clusterPolicyCases } from '../support/cluster-policy-cases.ts';
import { policyCases } from '../support/policy-cases.ts';
import { exampleAddresses, exampleCluster } from '../support/policy-cluster.ts';
import { type ObjectSet, objectSet, prove, provenNode, put } from './policy-proof.ts';
import { runHistory } from './policy-run.ts';
import { policyHistories, tieredHistories } from './random-policies.ts';

const casePorts = {
  TCP: [0, 1, 9, 10, 25, 41, 53, 80, 84, 85, 91, 5432, 5978, 6379, 8080, 8081, 9100, 65_535],
  UDP: [0, 53, 54, 5432, 65_535],
  SCTP: [7, 999, 1000, 2000, 2001],
} as const;

/** A seed to repeat a run with, and the number of clusters. */
const seed = Number(process.env['SEINE_TEST_SEED'] ?? Date.now() % 1_000_000);
const runs = Number(process.env['SEINE_TEST_POLICY_SETS'] ?? 12);

function engineOf(set: ObjectSet): PolicyEngine {
  const engine = new PolicyEngine(provenNode);
  for (const each of set.values()) put(engine, each);
  engine.update();
  return engine;
}

/** Pods are known before the first policy comes, as while an agent runs. */
function engineThenPolicies(set: ObjectSet): PolicyEngine {
  const [policies, others] = [true, false].map((wanted) =>
    [...set.values()].filter(({ kind }) => kind.endsWith('NetworkPolicy') === wanted),
  );
  const engine = new PolicyEngine(provenNode);
  for (const part of [others, policies]) {
    for (const each of part ?? []) put(engine, each);
    engine.update();
  }
  return engine;
}

it.each(policyCases)('the matrix equals the reference: $name', ({ policies }) => {
  const set = objectSet({ ...exampleCluster, networkPolicies: policies });
  const addresses = [...Object.values(exampleAddresses).flat(), '10.99.1.1', '10.99.1.2', '203.1.0.9', '169.254.169.254', '198.51.100.7'];
  for (const engine of [engineOf(set), engineThenPolicies(set)])
    expect(prove(set, engine.matrix, addresses, casePorts).differences.slice(0, 3)).toEqual([]);
});

it.each(clusterPolicyCases)('the matrix equals the reference for cluster policies: $name', ({ policies, clusterPolicies }) => {
  const set = objectSet({ ...exampleCluster, networkPolicies: policies, clusterNetworkPolicies: clusterPolicies });
  const addresses = [...Object.values(exampleAddresses).flat(), '198.51.100.7'];
  for (const engine of [engineOf(set), engineThenPolicies(set)])
    expect(prove(set, engine.matrix, addresses, casePorts).differences.slice(0, 3)).toEqual([]);
});

it.each([
  ['NetworkPolicies', policyHistories],
  ['policies of all tiers', tieredHistories],
])(
  `the matrix equals the reference, for random clusters that change, with %s (SEINE_TEST_SEED=${seed})`,
  { timeout: timeoutOf(runs) },
  async (name, histories) => {
    const total = { allowed: 0, denied: 0, peers: {} as Record<string, number> };
    for await (const batch of batches(`matrix and reference of ${name}`, { seed, runs }))
      fc.assert(
        fc.property(histories, (history) => {
          const result = runHistory(() => new PolicyEngine(provenNode), history);
          expect(result.differences.slice(0, 3)).toEqual([]);
          total.allowed += result.allowed;
          total.denied += result.denied;
          for (const [peer, count] of Object.entries(result.peers)) total.peers[peer] = (total.peers[peer] ?? 0) + count;
        }),
        { seed: batch.seed, numRuns: batch.runs, endOnFailure: true },
      );
    const probes = total.allowed + total.denied;
    process.stdout.write(
      `${probes} probes, ${((100 * total.allowed) / probes).toFixed(1)} % allowed, by peer ${JSON.stringify(total.peers)}\n`,
    );
    // A few clusters may be one-sided: what a hundred must show, they show in part.
    const [share, kinds] = runs >= 100 ? [0.3, 8] : [0.1, 4];
    expect(total.allowed / probes).toBeGreaterThan(share);
    expect(total.denied / probes).toBeGreaterThan(share);
    expect(Object.keys(total.peers).length).toBeGreaterThanOrEqual(kinds);
  },
);
