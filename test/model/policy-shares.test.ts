import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { networkPolicies } from '../../src/kubernetes/resources/network-policy.ts';
import { type CoarseRooms, PolicyEngine } from '../../src/policy/engine/policy-engine.ts';
import { numberRange } from '../../src/policy/flows/number-ranges.ts';
import { interpret, type PolicyPacket } from '../../src/policy/matrix/interpret.ts';
import type { PeerClass } from '../../src/policy/matrix/matrix.ts';
import { withoutNetworks } from '../../src/policy/verify/proof/without-networks.ts';
import { batches, timeoutOf } from '../support/batches.ts';
import { WrittenPolicy } from './policy-flow-run.ts';
import { type ObjectSet, objectSet, objectsOf, prove, provenNode, put } from './policy-proof.ts';
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
function engineOf(namespaces: readonly string[], mostSets?: number, rooms?: CoarseRooms): PolicyEngine {
  const engine = new PolicyEngine(provenNode, mostSets, rooms);
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

/** Every rule of the greedy namespace, and the ends of the other one's rule. */
const probes: readonly Probe[] = [
  ...Array.from({ length: 5_000 }, (_, at): Probe => {
    const rule = at % 1_000;
    return ['greedy/web', `20.${Math.floor(at / 1_000)}.${rule >> 8}.${rule & 255}`, 1 + rule];
  }),
  ...['20.0.0.7', '20.3.3.231', '20.4.0.7', '20.9.9.9', '21.0.0.1'].map((address): Probe => ['shop/web', address, 443]),
];

/** @returns verdicts of the matrix, which equal those of the switch */
function verdicts(engine: PolicyEngine, written: WrittenPolicy): readonly string[] {
  const { verdict } = new PolicySwitch(engine.matrix, written);
  const packets = probes.map(([pod, address, port]) => ({ direction: 'ingress', pod, address, protocol: 'TCP', port }) as const);
  const byMatrix = packets.map((packet) => interpret(engine.matrix, packet).verdict);
  for (const [at, packet] of packets.entries()) if (at % 250 === 0 || at >= 5_000) expect(verdict(packet)).toBe(byMatrix[at]);
  return byMatrix;
}

describe('a namespace whose rules distinguish more networks than there are numbers', { timeout: 120_000 }, () => {
  it('is denied traffic beyond its share, and named; another one is served, also after the loss of all flows and a restart', () => {
    const engine = greedyNode(['greedy', 'shop']);
    const written = new WrittenPolicy(engine);
    written.update();
    const served = verdicts(engine, written);
    expect(served.slice(-5)).toEqual(['allow', 'allow', 'deny', 'allow', 'deny']);
    expect(served.slice(0, 5_000).filter((verdict) => verdict === 'allow').length).toBeGreaterThan(3_900);
    expect(written.flows.problems).toEqual([]);
    expect(engine.shortages.map(({ direction, namespace }) => [direction, namespace])).toEqual([['ingress', 'greedy']]);
    // Agents that start with the flows, and without them, and learn of the policies in another order.
    for (const held of [written.entries(), new Map()]) {
      const restarted = greedyNode(['shop', 'greedy']);
      const again = new WrittenPolicy(restarted, held);
      again.update();
      expect(again.flows.problems).toEqual([]);
      expect(verdicts(restarted, again)).toEqual(served);
      expect(restarted.shortages).toEqual(engine.shortages);
    }
  });

  it('is served completely once it requires less', () => {
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

it('served sets leave numbers for those that replace others', () => {
  const engine = greedyNode(['greedy']);
  engine.update();
  const coarse = new Set([...engine.matrix.ingress.identities.values()].map(({ coarse: { id } }) => id));
  expect(coarse.size).toBeGreaterThan(3_900);
  expect(coarse.size).toBeLessThan(numberRange('coarse').last - 64);
});

/**
 * Pods of many namespaces on another node, at addresses that blocks cut across: `sides` blocks and `sides` namespaces have one pod each in
 * common.
 */
function crossedNode(sides: number, mostSets?: number): PolicyEngine {
  const engine = engineOf(['blocks', 'names', 'outside'], mostSets);
  engine.putNode({ name: 'n2', podCidrs: ['10.64.0.0/10'], addresses: ['192.168.0.2'] });
  for (let at = 0; at < sides; at++) {
    const name = `peers-${at}`;
    engine.putNamespace(name, { 'kubernetes.io/metadata.name': name });
    for (let block = 0; block < sides; block++)
      engine.putPod({ namespace: name, name: `p${block}`, nodeName: 'n2', podIps: [crossedAddress(block, at)], labels: {}, ports: {} });
  }
  return engine;
}

function crossedAddress(block: number, at: number): string {
  return `10.${64 + (block >> 8)}.${block & 255}.${at + 10}`;
}

const port = (at: number) => [{ port: 1_000 + at }];
const crossedRules = {
  /** Each names one network of pods. */
  blocks: (count: number): readonly IngressRule[] =>
    Array.from({ length: count }, (_, at) => ({
      from: [{ ipBlock: { cidr: `10.${64 + (at >> 8)}.${at & 255}.0/24` } }],
      ports: port(at),
    })),
  /** Each names one namespace. */
  names: (count: number): readonly IngressRule[] =>
    Array.from({ length: count }, (_, at) => ({
      from: [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': `peers-${at}` } } }],
      ports: port(at),
    })),
  /** Each names one network of external clients. */
  outside: (count: number): readonly IngressRule[] =>
    Array.from({ length: count }, (_, at) => ({ from: [{ ipBlock: { cidr: `20.0.${at >> 8}.${at & 255}/32` } }], ports: port(at) })),
};
const tenants = ['blocks', 'names', 'outside'] as const;
type Tenant = (typeof tenants)[number];

/** Probes of the ports that each rule allows, and of the adjacent ports. */
function crossedProbes(
  tenant: Tenant,
  rules: number,
  sides: number,
): readonly { readonly packet: PolicyPacket; readonly isAllowed: boolean }[] {
  return Array.from({ length: rules }, (_, at) => at).flatMap((at) => {
    const other = (at * 7) % sides;
    const address = { blocks: crossedAddress(at, other), names: crossedAddress(other, at), outside: `20.0.${at >> 8}.${at & 255}` }[tenant];
    return [0, 1].map((away) => ({
      packet: { direction: 'ingress', pod: `${tenant}/web`, address, protocol: 'TCP', port: 1_000 + at + away } as const,
      isAllowed: away === 0,
    }));
  });
}

describe('three namespaces, of which two cut the pods of the cluster across each other', { timeout: 120_000 }, () => {
  it('are each served completely with more combinations than numbers, also after the loss of all flows and a restart', () => {
    const sides = 64;
    const build = (order: readonly Tenant[]) => {
      const engine = crossedNode(sides);
      for (const tenant of order) engine.putPolicy(policyOf(tenant, 'p', crossedRules[tenant](tenant === 'outside' ? 100 : sides)));
      return engine;
    };
    const engine = build(tenants);
    const written = new WrittenPolicy(engine);
    written.update();
    for (const [at, held] of [written.entries(), new Map()].entries()) {
      const restarted = at === 0 ? engine : build(tenants.toReversed());
      const bridge = at === 0 ? written : new WrittenPolicy(restarted, held);
      if (at > 0) bridge.update();
      expect([restarted.shortages, bridge.flows.problems]).toEqual([[], []]);
      const { verdict } = new PolicySwitch(restarted.matrix, bridge);
      for (const tenant of tenants)
        for (const [index, { packet, isAllowed }] of crossedProbes(tenant, tenant === 'outside' ? 100 : sides, sides).entries()) {
          if (index % 6 > 1) continue; // each packet costs the model of the switch a walk through all rows
          const expected = isAllowed ? 'allow' : 'deny';
          expect([packet, interpret(restarted.matrix, packet).verdict, verdict(packet)]).toEqual([packet, expected, expected]);
        }
    }
  });

  it('never deny each other, with any sizes and numbers', () => {
    fc.assert(
      fc.property(
        fc.record({
          sides: fc.integer({ min: 2, max: 9 }),
          most: fc.integer({ min: 6, max: 40 }),
          order: fc.shuffledSubarray([...tenants], { minLength: 3, maxLength: 3 }),
          isGreedy: fc.boolean(),
        }),
        ({ sides, most, order, isGreedy }) => {
          const engine = crossedNode(sides, most);
          // A share is half the numbers divided by the namespaces that name all pods; one tenant may require more networks than all
          // numbers.
          const rulesOf: Readonly<Record<Tenant, number>> = {
            blocks: Math.min(sides, Math.floor(most / 3)),
            names: sides,
            outside: isGreedy ? 3 * most : Math.floor(most / 3),
          };
          const written = new WrittenPolicy(engine);
          for (const tenant of order) {
            engine.putPolicy(policyOf(tenant, 'p', crossedRules[tenant](rulesOf[tenant])));
            written.update();
          }
          const { verdict } = new PolicySwitch(engine.matrix, written);
          expect(engine.shortages.map(({ namespace }) => namespace)).toEqual(isGreedy ? ['outside'] : []);
          for (const tenant of tenants.filter((each) => !isGreedy || each !== 'outside'))
            for (const { packet, isAllowed } of crossedProbes(tenant, rulesOf[tenant], sides))
              expect([packet, verdict(packet)]).toEqual([packet, isAllowed ? 'allow' : 'deny']);
        },
      ),
      { numRuns: 60, seed },
    );
  });
});

describe('a change of more sets than there are free numbers', { timeout: 120_000 }, () => {
  /** The rules of one policy, whose networks are within those that `shop` allows; `version` makes each of them another set. */
  const changing = (count: number, version: number): readonly IngressRule[] =>
    Array.from({ length: count }, (_, at) => ({
      from: [{ ipBlock: { cidr: `20.${version}.${at >> 7}.${(at & 127) * 2}/31` } }],
      ports: port(at),
    }));
  const shopAddress = (at: number, version: number) => `20.${version}.${at >> 7}.${(at & 127) * 2}`;

  function changingNode(): { readonly engine: PolicyEngine; readonly written: WrittenPolicy } {
    const later: { written?: WrittenPolicy } = {};
    const roomOf = (direction: 'ingress' | 'egress') => ({
      isKnown: (set: PeerClass) => later.written?.flows.coarseRooms[direction].isKnown(set) ?? false,
      get free() {
        return later.written?.flows.coarseRooms[direction].free ?? 0;
      },
    });
    const engine = engineOf(['changes', 'shop'], undefined, { ingress: roomOf('ingress'), egress: roomOf('egress') });
    later.written = new WrittenPolicy(engine);
    engine.putPolicy(policyOf('shop', 'web', [{ from: [{ ipBlock: { cidr: '20.0.0.0/8' } }], ports: [{ port: 443 }] }]));
    return { engine, written: later.written };
  }

  it('denies no connection that is allowed before and after it, while the bridge still has the previous sets', () => {
    const { engine, written } = changingNode();
    let revision = 0;
    const replace = (version: number) => {
      for (let part = 0; part < 2; part++) engine.putPolicy(policyOf('changes', `p${part}`, changing(1_000, 2 * version + part)));
      written.update();
      written.flows.written(++revision);
    };
    const passes = (version: number) => {
      const { verdict } = new PolicySwitch(engine.matrix, written);
      const packets = [0, 1, 499, 999].flatMap((at) =>
        [2 * version, 2 * version + 1].flatMap((part) => [
          { direction: 'ingress', pod: 'shop/web', address: shopAddress(at, part), protocol: 'TCP', port: 443 } as const,
          { direction: 'ingress', pod: 'changes/web', address: shopAddress(at, part), protocol: 'TCP', port: 1_000 + at } as const,
        ]),
      );
      return packets.filter((packet) => verdict(packet) === 'deny');
    };
    // Each change needs 2,000 numbers that the previous one has not released.
    for (let version = 0; version < 4; version++) {
      replace(version);
      expect([version, written.flows.problems, engine.shortages, passes(version)]).toEqual([version, [], [], []]);
    }
    const isFine = () => [...engine.matrix.ingress.identities.values()].filter(({ coarse, fine }) => coarse.id === 0 && fine.id !== 0);
    expect(isFine().length).toBeGreaterThan(1_000);
    // The bridge drops the previous ones: numbers are free again, and sets return to the part where a rule costs least.
    written.flows.acknowledged(revision, 0);
    written.flows.acknowledged(revision, 10_000);
    written.update();
    expect([isFine().length, passes(3)]).toEqual([0, []]);
  });
});

it(`with few numbers a matrix depends on the objects alone, and denies only networks of the rules that are reported (SEINE_TEST_SEED=${seed})`, {
  timeout: timeoutOf(runs),
}, async () => {
  let shortages = 0;
  for await (const batch of batches('few numbers', { seed, runs }))
    fc.assert(
      fc.property(policyHistories, fc.integer({ min: 1, max: 4 }), (history, most) => {
        const { differences } = runHistory(() => new PolicyEngine(provenNode, most), history);
        expect(differences.filter((each) => !isDenied(each)).slice(0, 3)).toEqual([]);
        const engine = new PolicyEngine(provenNode, most);
        const written = new WrittenPolicy(engine);
        let set: ObjectSet = new Map();
        for (set of statesOf(history, engine)) written.update();
        for (const direction of ['ingress', 'egress'] as const) {
          const sets = new Set([...engine.matrix[direction].identities.values()].map(({ coarse }) => coarse.id));
          sets.delete(0);
          expect(sets.size).toBeLessThanOrEqual(most);
        }
        const { verdict } = new PolicySwitch(engine.matrix, written);
        const proof = prove(withoutLeftOut(set, engine), engine.matrix, probedAddresses, probedPorts, { verdict, every: 11 });
        expect(proof.differences).toEqual([]);
        if (engine.shortages.length > 0) shortages++;
        const restarted = new PolicyEngine(provenNode, most);
        for (const each of [...set.values()].toReversed()) put(restarted, each);
        restarted.update();
        expect(restarted.shortages).toEqual(engine.shortages);
      }),
      { seed: batch.seed, numRuns: batch.runs, endOnFailure: true },
    );
  expect(shortages).toBeGreaterThan(0);
});

/** Objects as if the reported rules named no networks. */
function withoutLeftOut(set: ObjectSet, { shortages }: PolicyEngine): ObjectSet {
  const { networkPolicies, ...others } = objectsOf(set);
  return objectSet({ ...others, networkPolicies: withoutNetworks(networkPolicies, new Set(shortages.flatMap(({ rules }) => rules))) });
}

/** The matrix denies what policies allow, because numbers have run out. */
function isDenied(difference: string): boolean {
  return /: matrix \{"verdict":"deny".*, reference \{.*"verdict":"allow"/.test(difference);
}
