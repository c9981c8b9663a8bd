import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { finish } from '../../src/base/async/steps.ts';
import { cidrAddress, parseCidr, parseIp } from '../../src/base/net/ip.ts';
import { compileDeniedLog } from '../../src/dataplane/compile/compile-denied-packets.ts';
import type { NodeEnvironment } from '../../src/dataplane/compile/environment.ts';
import { ownerOf } from '../../src/dataplane/pipeline/cookie.ts';
import { decodeFlowEntry, encodeBridgeEntries, isFlowKey } from '../../src/dataplane/targets/bridge/bridge-entry.ts';
import { encodeParsedFlow, parseFlow } from '../../src/openflow/text/parse-flow.ts';
import { PolicyEngine } from '../../src/policy/engine/policy-engine.ts';
import { PolicyBytes } from '../../src/policy/verify/flow-reader/flow-reader.ts';
import type { HeldFlow } from '../../src/policy/verify/flow-reader/table-index.ts';
import { type ProofResult, prove } from '../../src/policy/verify/proof/prove.ts';
import type { PolicyObjects } from '../../src/policy/verify/reference/objects.ts';
import { judge } from '../../src/policy/verify/reference/reference-verdict.ts';
import { batches, timeoutOf } from '../support/batches.ts';
import { clusterPolicyCases, clusterPolicyObject } from '../support/cluster-policy-cases.ts';
import { exampleNode } from '../support/example-node.ts';
import { policyCases } from '../support/policy-cases.ts';
import { exampleCluster, podObject, policyObject } from '../support/policy-cluster.ts';
import { localPods, nameOf, objectSet, objectsOf, provenNode, put } from './policy-proof.ts';
import { policyHistories, tieredHistories } from './random-policies.ts';
import { type BridgedPod, writtenBridge } from './written-bridge.ts';

/*
 * The flows of a node, in bytes, compared with the reference: the desired flows of engine and compilers are decoded by `policy-bytes`, and
 * compared with the verdicts of the policies.
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
  denied: 'drop' | 'reject' = 'drop',
): ProofResult & { problems: readonly string[] } {
  const bytes = new PolicyBytes(flows);
  return { ...proofWith(objects, bytes, local, mode, denied), problems: bytes.problems };
}

function proofWith(
  objects: PolicyObjects,
  bytes: Pick<PolicyBytes, 'decide' | 'likenessOf'>,
  local: readonly BridgedPod[],
  mode: 'enforce' | 'audit' = 'enforce',
  denied: 'drop' | 'reject' = 'drop',
): ProofResult {
  const steps = prove({ objects, nodeName: provenNode, pods: local, bytes, mode, denied });
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

it.each(policyCases)('flows enforce the policies: $name', ({ policies }) => {
  const objects = { ...exampleCluster, networkPolicies: policies };
  const { differences, problems, cells } = proofOf(objects, flowsOf(objects));
  expect(differences.map(({ flows, ...each }) => ({ ...each, tables: flows.map(({ table }) => table).join() })).slice(0, 3)).toEqual([]);
  expect(problems).toEqual([]);
  expect(cells).toBeGreaterThan(100);
});

it.each(clusterPolicyCases)('flows enforce cluster policies: $name', ({ policies, clusterPolicies }) => {
  const objects = { ...exampleCluster, networkPolicies: policies, clusterNetworkPolicies: clusterPolicies };
  const { differences, problems, cells } = proofOf(objects, flowsOf(objects));
  expect(differences.map(({ flows, ...each }) => ({ ...each, tables: flows.map(({ table }) => table).join() })).slice(0, 3)).toEqual([]);
  expect(problems).toEqual([]);
  expect(cells).toBeGreaterThan(50);
});

it.each(['closed', 'open'] as const)('flows treat pods that are not known as the setting requires: %s', (unknownPeers) => {
  const deny = { action: 'Deny' as const, from: [{ namespaces: { matchLabels: { env: 'dev' } } }] };
  const named = { action: 'Deny' as const, to: [{ namespaces: {} }], protocols: [{ destinationNamedPort: 'http' }] };
  const clusterNetworkPolicies = [
    clusterPolicyObject('in', { ingress: [deny] }),
    clusterPolicyObject('out', { subject: { namespaces: {} }, egress: [named] }),
  ];
  const objects = { ...exampleCluster, networkPolicies: [], clusterNetworkPolicies };
  const engine = new PolicyEngine(provenNode, undefined, undefined, unknownPeers);
  for (const each of objectSet(objects).values()) put(engine, each);
  const bytes = new PolicyBytes(writtenBridge(engine, exampleNode, pods));
  const result = finish(prove({ objects, nodeName: provenNode, pods, bytes, mode: 'enforce', unknownPeers }));
  const other = finish(
    prove({ objects, nodeName: provenNode, pods, bytes, mode: 'enforce', unknownPeers: unknownPeers === 'open' ? 'closed' : 'open' }),
  );
  expect([result.differences.slice(0, 2), bytes.problems]).toEqual([[], []]);
  expect(other.differencesTotal).toBeGreaterThan(0);
  const unknown = bytes.decide({ direction: 'ingress', ofPort: 32784, own: parseIp('10.10.0.5'), peer: parseIp('10.10.4.99') });
  expect(new Set(unknown.outcomes.map(({ verdict }) => verdict))).toEqual(new Set([unknownPeers === 'open' ? 'allow' : 'deny']));
});

it('networks of cluster rules that the node leaves out may be denied, and are not allowed', () => {
  const network = (at: number) => ({ networks: [`30.${at}.0.0/16`] });
  const rules = Array.from({ length: 12 }, (_, at) => ({
    action: at % 2 === 0 ? ('Deny' as const) : ('Accept' as const),
    to: [network(at)],
    protocols: [{ tcp: { destinationPort: { number: 1_000 + at } } }],
  }));
  const clusterNetworkPolicies = [clusterPolicyObject('nets', { subject: { namespaces: {} }, egress: rules })];
  const objects = { ...exampleCluster, networkPolicies: [], clusterNetworkPolicies };
  const engine = new PolicyEngine(provenNode, 4);
  for (const each of objectSet(objects).values()) put(engine, each);
  const flows = writtenBridge(engine, exampleNode, pods);
  const leftOutRules = new Set(engine.shortages.flatMap(({ rules: names }) => names));
  expect(leftOutRules.size).toBeGreaterThan(4);
  const proven = (held: readonly HeldFlow[], leftOut: ReadonlySet<string>) =>
    finish(prove({ objects, nodeName: provenNode, pods, bytes: new PolicyBytes(held), mode: 'enforce', leftOutRules: leftOut }));
  expect(proven(flows, leftOutRules).differences.slice(0, 2)).toEqual([]);
  expect(proven(flows, new Set()).differencesTotal).toBeGreaterThan(0);
  // Without the row that denies what has no number, these networks would be allowed.
  const unnumbered = flows.filter(({ table, priority }) => table === 40 && priority === 210);
  const open = unnumbered.map(
    (gone) =>
      proven(
        flows.filter((flow) => flow !== gone),
        leftOutRules,
      ).differencesTotal,
  );
  expect(Math.max(...open)).toBeGreaterThan(0);
});

it.each(['drop', 'reject'] as const)('answers to denied clients are those that node, namespace and policy state: node %s', (denied) => {
  const lock = {
    ingress: [{ action: 'Deny' as const, from: [{ namespaces: {} }], protocols: [{ tcp: { destinationPort: { number: 22 } } }] }],
  };
  const stating = clusterPolicyObject('lock', lock);
  const clusterNetworkPolicies = [
    { ...stating, metadata: { ...stating.metadata, annotations: { 'seine.dev/denied': denied === 'drop' ? 'reject' : 'drop' } } },
  ];
  const networkPolicies = [policyObject('shop/closed', { podSelector: {} }), policyObject('ops/closed', { podSelector: {} })];
  const annotated = (name: string) => ({ metadata: { name, labels: {}, annotations: { 'seine.dev/denied': 'reject' } } });
  const namespaces = exampleCluster.namespaces.map((each) => (each.metadata.name === 'ops' ? annotated('ops') : each));
  const objects = { ...exampleCluster, namespaces, networkPolicies, clusterNetworkPolicies };
  const flows = flowsOf(objects, { ...exampleNode, denied });
  expect(proofOf(objects, flows, 'enforce', pods, denied).differences.slice(0, 2)).toEqual([]);
  // The node answers as the other setting requires: each cell for which nothing is stated differs, and no verdict does.
  const other = denied === 'drop' ? 'reject' : 'drop';
  const { differences, differencesTotal } = proofOf(objects, flows, 'enforce', pods, other);
  expect(differencesTotal).toBeGreaterThan(10);
  const [bridge, policies] = denied === 'drop' ? ['deny', 'reject'] : ['reject', 'deny'];
  for (const each of differences) expect(each).toMatchObject({ bridge, policies, by: ['shop/closed'] });
  // Answers that the node's objects do not state any more.
  const plain = { ...objects, namespaces: exampleCluster.namespaces };
  expect(proofOf(plain, flows, 'enforce', pods, denied).differences.length > 0).toBe(denied === 'drop');
});

it('a missing flow is detected wherever it was needed', () => {
  const policies = policyCases.find(({ name }) => name.startsWith('a port, of TCP'))?.policies ?? [];
  const objects = { ...exampleCluster, networkPolicies: policies };
  const flows = flowsOf(objects);
  // Flows of tables whose absence denies: entries, look-ups, classes, decisions.
  const needed = flows.filter(({ table }) => [80, 86, 87].includes(table));
  const unnoticed = needed.filter(
    (gone) =>
      proofOf(
        objects,
        flows.filter((flow) => flow !== gone),
      ).differencesTotal === 0,
  );
  expect(needed.length).toBeGreaterThan(5);
  // Entries of gateway and tunnel are on no pod's path, no pod here is blocked, and none has cluster policies; a packet without a row is denied, as by the denying
  // row. Flows for fragments, four of two families, match no whole packet; and those for answers, two, match none that opens a connection.
  expect(unnoticed.map(({ table }) => table)).toEqual([80, 80, 86, 86, 87, 87, 87, 87, 87, 87, 87]);
});

describe('one address represents all equivalent ones', () => {
  const webs = [11, 12, 13].map((at) =>
    podObject(`shop/web-${at}`, [`10.10.4.${at}`, `fd00:10:0:1::${at}`], { node: 'n2', labels: { app: 'web', 'pod-name': `web-${at}` } }),
  );
  const ingress = [{ from: [{ podSelector: { matchLabels: { app: 'web' } } }, { ipBlock: { cidr: '203.0.113.0/25' } }] }];
  const policies = [policyObject('shop/db', { podSelector: { matchLabels: { app: 'db' } }, ingress })];
  const objects = { ...exampleCluster, pods: [...exampleCluster.pods, ...webs], networkPolicies: policies };
  const flows = flowsOf(objects);
  const without = (text: string) => {
    const match = Buffer.from(encodeParsedFlow(parseFlow(`${text} actions=drop`), 'add').match);
    const rest = flows.filter((flow) => !match.equals(flow.match));
    expect(rest).toHaveLength(flows.length - 1);
    return proofOf(objects, rest).differences.map(({ peer, morePeers, bridge }) => [peer, morePeers, bridge]);
  };

  it('and they are few', () => {
    const { addresses, groups, differencesTotal } = proofOf(objects, flows);
    expect(differencesTotal).toBe(0);
    expect(addresses - groups).toBeGreaterThan(4);
  });
  it('except for a flow that one of them lacks', () => {
    const found = without('table=82,ip,nw_src=10.10.4.12');
    expect(new Set(found.map(String))).toEqual(new Set(['10.10.4.12,0,deny']));
  });
  it('except for a block that the flows lack', () => {
    const found = without('table=82,ip,nw_src=203.0.113.0/25');
    expect(new Set(found.map(String))).toEqual(new Set(['203.0.113.0,2,deny']));
  });
});

it('a copy of a denied packet does not change its fate', () => {
  const policies = policyCases.find(({ name }) => name.startsWith('default deny all'))?.policies ?? [];
  const objects = { ...exampleCluster, networkPolicies: policies };
  for (const mode of ['enforce', 'audit'] as const) {
    const node: NodeEnvironment = { ...exampleNode, ...(mode === 'audit' ? { policyMode: mode } : {}) };
    const copies = pods.flatMap(({ ofPort }) => [...encodeBridgeEntries(ownerOf('policy', 'log'), compileDeniedLog(ofPort, node))]);
    const rows = copies.flatMap(([key, value]) => (isFlowKey(key) ? [decodeFlowEntry(key, value)] : []));
    const { differencesTotal, problems, cells } = proofOf(objects, [...flowsOf(objects, node), ...rows], mode);
    expect([differencesTotal, problems, rows.length > 0]).toEqual([0, [], true]);
    expect(cells).toBeGreaterThan(100);
  }
});

it('a block of a node’s external address is its gateway too', () => {
  const [first, second] = exampleCluster.nodes;
  if (!first || !second) throw new Error('the example has two nodes');
  const addresses = [...second.status.addresses, { type: 'ExternalIP', address: '198.51.100.2' }];
  const ingress = [{ from: [{ ipBlock: { cidr: '198.51.100.2/32' } }] }];
  const networkPolicies = [policyObject('shop/db', { podSelector: { matchLabels: { app: 'db' } }, ingress })];
  const objects = { ...exampleCluster, nodes: [first, { ...second, status: { addresses } }], networkPolicies };
  const { differences, problems } = proofOf(objects, flowsOf(objects));
  expect([differences.map(({ peer }) => peer), problems]).toEqual([[], []]);
});

it('in audit mode the decision counts', () => {
  const policies = policyCases.find(({ name }) => name.startsWith('default deny all'))?.policies ?? [];
  const objects = { ...exampleCluster, networkPolicies: policies };
  const flows = flowsOf(objects, { ...exampleNode, policyMode: 'audit' });
  expect(proofOf(objects, flows, 'audit')).toMatchObject({ differencesTotal: 0, problems: [] });
  expect(proofOf(objects, flows, 'enforce').differencesTotal).toBeGreaterThan(10);
});

it('a pod blocked pending policy reaches its own node only', () => {
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

it.each([
  ['NetworkPolicies', policyHistories],
  ['policies of all tiers', tieredHistories],
] as const)(
  `flows enforce the policies, for random clusters of %s (SEINE_TEST_SEED=${seed})`,
  { timeout: timeoutOf(runs) },
  async (name, histories) => {
    let cells = 0;
    for await (const batch of batches(`bytes and reference of ${name}`, { seed, runs }))
      fc.assert(
        fc.property(histories, fc.constantFrom('drop', 'reject'), ({ objects: begin, changes }, denied) => {
          const put = changes.flat().flatMap((step) => ('put' in step ? [step.put] : []));
          const objects = objectsOf(new Map([...begin, ...put].map((each) => [nameOf(each), each])));
          const own = objects.nodes.find(({ metadata }) => metadata.name === provenNode);
          fc.pre(own !== undefined);
          const local = localPods(objects).map(({ pod, ips }, at) => ({ pod, ofPort: 32784 + at, addresses: ips }));
          const result = proofOf(objects, flowsOf(objects, { ...environmentOf(own), denied }, local), 'enforce', local, denied);
          expect(
            result.differences.map(({ flows, ...each }) => ({ ...each, tables: flows.map(({ table }) => table).join() })).slice(0, 3),
          ).toEqual([]);
          expect(result.problems).toEqual([]);
          cells += result.cells;
        }),
        { seed: batch.seed, numRuns: batch.runs, endOnFailure: true },
      );
    process.stdout.write(`${cells} cells\n`);
  },
);

it(`a difference has the verdict and the rules of the whole reference (SEINE_TEST_SEED=${seed})`, { timeout: timeoutOf(runs) }, () => {
  let compared = 0;
  fc.assert(
    fc.property(policyHistories, policyHistories, ({ objects: begin }, { objects: others }) => {
      const [objects, ofBridge] = [begin, others].map((each) => objectsOf(new Map(each.map((one) => [nameOf(one), one]))));
      const own = objects?.nodes.find(({ metadata }) => metadata.name === provenNode);
      if (!objects || !ofBridge) return;
      const local = localPods(objects).map(({ pod, ips }, at) => ({ pod, ofPort: 32784 + at, addresses: ips }));
      // Flows of other policies: nearly everything differs.
      const flows = flowsOf({ ...objects, networkPolicies: ofBridge.networkPolicies }, environmentOf(own), local);
      for (const { pod, direction, peer, protocol, first, policies, by } of proofOf(objects, flows, 'enforce', local).differences) {
        const [mine] = local
          .filter((each) => each.pod === pod)
          .flatMap(({ addresses }) => addresses.filter((ip) => ip.includes(':') === peer.includes(':')));
        const ends = direction === 'ingress' ? { from: peer, to: mine ?? '' } : { from: mine ?? '', to: peer };
        const whole = judge(objects, { ...ends, protocol: protocol === 'other' ? 'GRE' : protocol, port: first })[direction];
        expect([pod, direction, peer, policies]).toEqual([pod, direction, peer, whole?.verdict]);
        if (whole) expect(by).toEqual(whole.allowedBy.length > 0 ? whole.allowedBy : whole.isolatedBy);
        compared++;
      }
    }),
    { seed, numRuns: runs, endOnFailure: true },
  );
  process.stdout.write(`${compared} differences compared\n`);
});

it('thousands of rules of one namespace are not compared with thousands of addresses one by one', () => {
  const count = 400;
  let asked = 0;
  const peerOf = (at: number) => ({
    get ipBlock() {
      asked++;
      return { cidr: `30.${at >> 7}.${(at & 127) * 2}.0/25` };
    },
  });
  const networkPolicies = Array.from({ length: count }, (_, at) =>
    policyObject(`shop/p${at}`, { podSelector: {}, ingress: [{ from: [peerOf(at)], ports: [{ port: 1 + at }] }] }),
  );
  const objects = { ...exampleCluster, networkPolicies };
  const flows = flowsOf(objects);
  asked = 0;
  const { differencesTotal, problems, groups } = proofOf(objects, flows);
  expect([differencesTotal, problems]).toEqual([0, []]);
  expect(groups).toBeGreaterThan(count);
  expect(asked).toBeLessThan(100 * count); // and not more than count × groups
});

/** Makes a row about addresses, classes or ports do what another one of its table does. */
function mutated(flows: readonly HeldFlow[], at: number, by: number): readonly HeldFlow[] {
  const rows = flows.filter(({ table }) => [38, 40, 41, 42, 43, 44, 45, 82, 84, 85, 86, 87, 88, 89].includes(table));
  const aim = rows[at % rows.length];
  const others = rows.filter(({ table, instructions }) => table === aim?.table && !Buffer.from(instructions).equals(aim.instructions));
  const other = others[by % others.length];
  if (!aim || !other) return flows.filter((flow) => flow !== aim);
  return flows.map((flow) => (flow === aim ? { ...flow, instructions: other.instructions } : flow));
}

it(`one address of a group represents all (SEINE_TEST_SEED=${seed})`, { timeout: timeoutOf(runs) }, () => {
  const counts = { same: 0, differ: 0 };
  fc.assert(
    fc.property(fc.oneof(policyHistories, tieredHistories), fc.nat(), fc.nat(), ({ objects: begin }, at, by) => {
      const objects = objectsOf(new Map(begin.map((each) => [nameOf(each), each])));
      const own = objects.nodes.find(({ metadata }) => metadata.name === provenNode);
      const local = localPods(objects).map(({ pod, ips }, place) => ({ pod, ofPort: 32784 + place, addresses: ips }));
      const bytes = new PolicyBytes(mutated(flowsOf(objects, environmentOf(own), local), at, by));
      const grouped = proofWith(objects, bytes, local);
      const oneByOne = { decide: bytes.decide.bind(bytes), likenessOf: (_: string, { text }: { readonly text: string }) => text };
      const each = proofWith(objects, oneByOne, local);
      const found = new Set(grouped.differences.flatMap(({ pod, direction }) => `${pod} ${direction}`));
      expect(found).toEqual(new Set(each.differences.flatMap(({ pod, direction }) => `${pod} ${direction}`)));
      expect(grouped.cells).toBeLessThanOrEqual(each.cells);
      counts[each.differencesTotal === 0 ? 'same' : 'differ']++;
    }),
    { seed, numRuns: runs, endOnFailure: true },
  );
  process.stdout.write(`${counts.differ} of ${counts.differ + counts.same} mutants differ\n`);
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
