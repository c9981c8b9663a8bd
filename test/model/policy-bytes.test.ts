import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { NodeEnvironment } from '../../src/connectivity/environment.ts';
import { cidrAddress, parseCidr, parseIp } from '../../src/net/ip.ts';
import { PolicyEngine } from '../../src/policy/policy-engine.ts';
import { PolicyBytes } from '../../src/policy-bytes/policy-bytes.ts';
import type { HeldFlow } from '../../src/policy-bytes/table-index.ts';
import { type ProofResult, prove } from '../../src/policy-proof/prove.ts';
import type { PolicyObjects } from '../../src/policy-reference/objects.ts';
import { batches, timeoutOf } from '../support/batches.ts';
import { exampleNode } from '../support/example-node.ts';
import { policyCases } from '../support/policy-cases.ts';
import { exampleCluster } from '../support/policy-cluster.ts';
import { localPods, nameOf, objectSet, objectsOf, provenNode, put } from './policy-proof.ts';
import { policyHistories } from './random-policies.ts';
import { type BridgedPod, writtenBridge } from './written-bridge.ts';

/*
 * The flows of a node, in bytes, against the reference: what the engine and the compilers want of the bridge is read again by
 * `policy-bytes`, and compared with what the policies say.
 */

const pods: readonly BridgedPod[] = [
  { pod: 'shop/db', ofPort: 32784, addresses: ['10.10.0.5', 'fd00:10::5'] },
  { pod: 'shop/api', ofPort: 32785, addresses: ['10.10.0.6', 'fd00:10::6'] },
  { pod: 'ops/agent', ofPort: 32786, addresses: ['10.10.0.8', 'fd00:10::8'] },
];

function flowsOf(objects: PolicyObjects, node: NodeEnvironment = exampleNode, local = pods): HeldFlow[] {
  const engine = new PolicyEngine(provenNode);
  for (const each of objectSet(objects).values()) put(engine, each);
  return writtenBridge(engine, node, local);
}

function proofOf(
  objects: PolicyObjects,
  flows: readonly HeldFlow[],
  mode: 'enforce' | 'audit' = 'enforce',
  local = pods,
): ProofResult & { problems: readonly string[] } {
  const bytes = new PolicyBytes(flows);
  const steps = prove({ objects, nodeName: provenNode, pods: local, bytes, mode });
  for (;;) {
    const { done, value } = steps.next();
    if (done) return { ...value, problems: bytes.problems };
  }
}

it.each(policyCases)('flows do what the policies say: $name', ({ policies }) => {
  const objects = { ...exampleCluster, networkPolicies: policies };
  const { differences, problems, cells } = proofOf(objects, flowsOf(objects));
  expect(differences.map(({ flows, ...each }) => ({ ...each, tables: flows.map(({ table }) => table).join() })).slice(0, 3)).toEqual([]);
  expect(problems).toEqual([]);
  expect(cells).toBeGreaterThan(100);
});

it('a flow that is gone is found wherever it was needed', () => {
  const policies = policyCases.find(({ name }) => name.startsWith('a port, of TCP'))?.policies ?? [];
  const objects = { ...exampleCluster, networkPolicies: policies };
  const flows = flowsOf(objects);
  // Of tables whose absence closes: entries, look-ups, classes, decisions.
  const needed = flows.filter(({ table }) => [80, 86, 87].includes(table));
  const unnoticed = needed.filter(
    (gone) =>
      proofOf(
        objects,
        flows.filter((flow) => flow !== gone),
      ).differencesTotal === 0,
  );
  expect(needed.length).toBeGreaterThan(5);
  // Entries of gateway and tunnel are on no pod's way, and no pod here is closed; what finds no row is denied, as the row that denies would.
  // What holds for fragments, four flows of two families, holds for no whole packet.
  expect(unnoticed.map(({ table }) => table)).toEqual([80, 80, 86, 87, 87, 87, 87, 87]);
});

it('in audit what was decided counts', () => {
  const policies = policyCases.find(({ name }) => name.startsWith('default deny all'))?.policies ?? [];
  const objects = { ...exampleCluster, networkPolicies: policies };
  const flows = flowsOf(objects, { ...exampleNode, policyMode: 'audit' });
  expect(proofOf(objects, flows, 'audit')).toMatchObject({ differencesTotal: 0, problems: [] });
  expect(proofOf(objects, flows, 'enforce').differencesTotal).toBeGreaterThan(10);
});

it('a pod that nobody has decided about talks with its own node, and nobody else', () => {
  const unknown: BridgedPod = { pod: 'shop/new', ofPort: 32790, addresses: ['10.10.0.20', 'fd00:10::14'] };
  const bytes = new PolicyBytes(flowsOf({ ...exampleCluster, networkPolicies: [] }, exampleNode, [...pods, unknown]));
  const verdicts = (direction: 'ingress' | 'egress', own: string, peer: string, from: 'gateway' | 'tunnel'): readonly string[] => {
    const { outcomes } = bytes.decide({ direction, ofPort: unknown.ofPort, own: parseIp(own), peer: parseIp(peer), from });
    return [...new Set(outcomes.map(({ verdict }) => verdict))];
  };
  const ways = [
    ['10.10.0.20', '192.168.77.1', '10.10.4.7'],
    ['fd00:10::14', 'fd00:10::1', 'fd00:10:0:1::7'],
  ] as const;
  for (const [own, node, other] of ways)
    for (const direction of ['ingress', 'egress'] as const) {
      expect(verdicts(direction, own, node, 'gateway')).toEqual(['allow']);
      expect(verdicts(direction, own, other, 'tunnel')).toEqual(['closed']);
    }
  expect(bytes.problems).toEqual([]);
});

const seed = Number(process.env['SEINE_TEST_SEED'] ?? Date.now() % 1_000_000);
const runs = Number(process.env['SEINE_TEST_POLICY_SETS'] ?? 6);

it(`flows do what the policies say, for random clusters (SEINE_TEST_SEED=${seed})`, { timeout: timeoutOf(runs) }, async () => {
  let cells = 0;
  for await (const batch of batches('bytes and reference', { seed, runs }))
    fc.assert(
      fc.property(policyHistories, ({ objects: begin, changes }) => {
        const put = changes.flat().flatMap((step) => ('put' in step ? [step.put] : []));
        const objects = objectsOf(new Map([...begin, ...put].map((each) => [nameOf(each), each])));
        const own = objects.nodes.find(({ metadata }) => metadata.name === provenNode);
        fc.pre(own !== undefined);
        const local = localPods(objects).map(({ pod, ips }, at) => ({ pod, ofPort: 32784 + at, addresses: ips }));
        const result = proofOf(objects, flowsOf(objects, environmentOf(own), local), 'enforce', local);
        expect(
          result.differences.map(({ flows, ...each }) => ({ ...each, tables: flows.map(({ table }) => table).join() })).slice(0, 3),
        ).toEqual([]);
        expect(result.problems).toEqual([]);
        cells += result.cells;
      }),
      { seed: batch.seed, numRuns: batch.runs, endOnFailure: true },
    );
  process.stdout.write(`${cells} cells\n`);
});

function environmentOf(node: PolicyObjects['nodes'][number] | undefined): NodeEnvironment {
  const podCidrs = (node?.spec.podCIDRs ?? []).map(parseCidr);
  const transport = (node?.status.addresses ?? []).filter(({ type }) => type !== 'Hostname').map(({ address }) => parseIp(address));
  return {
    ...exampleNode,
    podCidrs,
    transport,
    gateway: { ...exampleNode.gateway, addresses: podCidrs.map((cidr) => cidrAddress(cidr, 1n)) },
  };
}
