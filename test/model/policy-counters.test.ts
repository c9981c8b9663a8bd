import { expect, it } from 'vitest';
import type { RuleCounters } from '../../src/api/policy.ts';
import { decodeFlowEntry } from '../../src/dataplane/targets/bridge/bridge-entry.ts';
import type { FlowFilter, FlowStats } from '../../src/openflow/flows/flow-stats.ts';
import { policyCounters } from '../../src/operations/admin/policy-counters.ts';
import { PolicyEngine } from '../../src/policy/engine/policy-engine.ts';
import { exampleCluster, policyObject } from '../support/policy-cluster.ts';
import { WrittenPolicy } from './policy-flow-run.ts';
import { objectSet, provenNode, put } from './policy-proof.ts';

it('counts by rule the packets of its rows, and by isolating policies those that no rule allows', async () => {
  const api = { podSelector: { matchLabels: { app: 'api' } } };
  const policies = [
    policyObject('shop/db', {
      podSelector: { matchLabels: { app: 'db' } },
      ingress: [
        { from: [api], ports: [{ port: 5432 }] },
        { from: [api], ports: [{ port: 1000, endPort: 1002 }, { protocol: 'UDP' }] },
        { from: [{ ipBlock: { cidr: '203.0.113.0/24' } }] },
      ],
    }),
    policyObject('shop/all', { podSelector: {} }),
  ];
  const engine = new PolicyEngine(provenNode);
  for (const each of objectSet({ ...exampleCluster, networkPolicies: policies }).values()) put(engine, each);
  const policy = new WrittenPolicy(engine);
  policy.update();
  const flows = [...policy.entries()].map(([key, value]) => decodeFlowEntry(key, value));
  const dumpFlows = async ({ table }: FlowFilter, visit: (flow: FlowStats) => void) => {
    const rest = { idleTimeout: 0, hardTimeout: 0, importance: 0, flags: 0, durationNs: 0n, packets: 2n, bytes: 200n };
    for (const flow of flows) if (flow.table === table) visit({ ...rest, ...flow });
  };
  const decided = () => policy.flows.decided(engine.matrix);
  const { body } = await policyCounters({ openflow: { dumpFlows }, running: () => ({ policy: { decided } }) }, AbortSignal.timeout(5_000));
  const { items } = JSON.parse(String(body)) as { readonly items: readonly RuleCounters[] };
  const lines = items.map(({ direction, verdict, by, packets, bytes }) => `${direction} ${verdict} ${by.join()}: ${packets} ${bytes}`);
  expect(lines.toSorted()).toEqual([
    'ingress allow shop/db spec.ingress[0]: 4 400',
    'ingress allow shop/db spec.ingress[1]: 12 1200',
    'ingress allow shop/db spec.ingress[2]: 2 200',
    'ingress deny shop/all,shop/db: 4 400',
    'ingress deny shop/all: 2 200',
  ]);
});
