import { describe, expect, it } from 'vitest';
import { networkPolicies } from '../../src/kubernetes/resources/network-policy.ts';
import { policyIntent } from '../../src/policy/engine/intent.ts';
import { PolicyEngine } from '../../src/policy/engine/policy-engine.ts';
import { interpret } from '../../src/policy/matrix/interpret.ts';
import { WrittenPolicy } from './policy-flow-run.ts';
import { provenNode } from './policy-proof.ts';
import { PolicySwitch } from './policy-switch.ts';

/** Policies of the maximum size are served, or rejected with the exceeded limit: none blocks the agent, and none opens. */

const others = 2_000;

/** A node with one pod, and many pods of its namespace elsewhere. */
function engine(): PolicyEngine {
  const made = new PolicyEngine(provenNode);
  made.putNode({ name: provenNode, podCidrs: ['10.1.0.0/24'], addresses: ['192.168.0.1'] });
  made.putNamespace('shop', {});
  const pod = { namespace: 'shop', ports: {} };
  made.putPod({ ...pod, name: 'web', nodeName: provenNode, podIps: ['10.1.0.5'], labels: {} });
  for (let at = 0; at < others; at++)
    made.putPod({ ...pod, name: `other-${at}`, nodeName: 'n2', podIps: [addressOf(at)], labels: { app: `a${at}` } });
  return made;
}

function addressOf(at: number): string {
  return `10.2.${at >> 8}.${at & 255}`;
}

function policyOf(ingress: readonly object[]) {
  const metadata = { namespace: 'shop', name: 'large', uid: 'u', generation: 1 };
  const policy = networkPolicies.project({ metadata, spec: { podSelector: {}, policyTypes: ['Ingress'], ingress } });
  if (!policy) throw new Error('no policy');
  return policy;
}

/** Number of property checks in `work`, such as each test of a pod's label: all of them run without interruption. */
function countObservations(work: () => void): number {
  const { hasOwn } = Object;
  let looks = 0;
  Object.hasOwn = (of, key) => {
    looks++;
    return hasOwn(of, key);
  };
  try {
    work();
  } finally {
    Object.hasOwn = hasOwn;
  }
  return looks;
}

/** @returns its rejections, its rows, and whether `web` admits at a port: by the matrix, and by the switch */
function served(ingress: readonly object[]) {
  const policy = policyOf(ingress);
  const policed = engine();
  const written = new WrittenPolicy(policed);
  const looks = countObservations(() => {
    policed.putPolicy(policy);
    written.update();
  });
  const packet = (address: string, port: number) => ({ direction: 'ingress', pod: 'shop/web', address, protocol: 'TCP', port }) as const;
  return {
    looks,
    refused: [...(policy.faults ?? []), ...policyIntent(policy).refused],
    rows: [...written.byOwner.values()].reduce((sum, flows) => sum + flows.length, 0),
    problems: written.flows.problems,
    coarse: new Set([...policed.matrix.ingress.identities.values()].flatMap(({ coarse: { id } }) => (id === 0 ? [] : [id]))).size,
    asked: (address: string, port: number) => interpret(policed.matrix, packet(address, port)).verdict,
    passes: (address: string, port: number) => new PolicySwitch(policed.matrix, written).verdict(packet(address, port)),
  };
}

const blocks = (count: number) =>
  Array.from({ length: count }, (_, at) => ({
    ipBlock: { cidr: `20.${at >> 8}.${at & 255}.0/24`, except: [`20.${at >> 8}.${at & 255}.8/32`] },
  }));

describe('a policy', { timeout: 60_000 }, () => {
  it('that names 20,000 networks in a rule is served completely with one number, and networks beyond the limit allow nothing', () => {
    const { refused, asked, problems, passes, coarse } = served([
      { from: blocks(10_000), ports: [{ port: 80 }] },
      { from: [{ ipBlock: { cidr: '30.0.0.0/8' } }] },
    ]);
    expect([refused, problems, coarse]).toEqual([['spec.ingress[1]: more than 20000 networks in the rules up to this one'], [], 1]);
    const inside: readonly (readonly [string, number])[] = [
      ['20.0.0.1', 80],
      ['20.39.15.255', 80],
    ];
    const outside: readonly (readonly [string, number])[] = [
      ['20.0.0.8', 80],
      ['20.0.0.1', 81],
      ['20.39.15.8', 80],
      ['20.39.16.1', 80],
      ['30.0.0.1', 80],
      ['10.2.0.5', 80],
    ];
    expect(inside.map(([address, port]) => [asked(address, port), passes(address, port)])).toEqual(inside.map(() => ['allow', 'allow']));
    expect(outside.map(([address, port]) => [asked(address, port), passes(address, port)])).toEqual(outside.map(() => ['deny', 'deny']));
  });

  it('that names 4,000 blocks in 1,000 rules is served completely', () => {
    const rules = Array.from({ length: 1_000 }, (_, at) => ({ from: blocks(4_000).slice(4 * at, 4 * at + 4), ports: [{ port: 80 }] }));
    const { refused, asked, problems, coarse } = served(rules);
    expect([refused, problems, coarse]).toEqual([[], [], 1_000]);
    expect([asked('20.15.159.1', 80), asked('20.15.159.8', 80), asked('20.15.160.1', 80)]).toEqual(['allow', 'deny', 'deny']);
  });

  it('that names more than 20,000 networks in a rule allows nothing by that rule, and isolates all the same', () => {
    const { refused, asked, rows } = served([{ from: blocks(10_001) }]);
    expect(refused).toEqual(['spec.ingress[0]: more than 20000 networks in the rules up to this one']);
    expect([asked('20.0.0.1', 80), rows]).toEqual(['deny', 1]);
  });

  it('of 5 MB that names 50,000 pods of its namespace, most of which do not exist, is served', () => {
    const rules = Array.from({ length: 1_000 }, (_, rule) => ({
      from: Array.from({ length: 50 }, (_, at) => ({
        podSelector: { matchLabels: { app: `a${rule * 50 + at}` }, matchExpressions: [{ key: 'tier', operator: 'DoesNotExist' }] },
      })),
      ports: [{ port: 1 + rule }],
    }));
    expect(JSON.stringify(rules).length).toBeGreaterThan(5_000_000);
    const { refused, asked, problems, looks } = served(rules);
    expect([refused, problems]).toEqual([[], []]);
    expect(looks).toBeLessThan(10 * others); // and not 50,000 × 2,000
    expect([asked(addressOf(0), 1), asked(addressOf(49), 1), asked(addressOf(50), 2)]).toEqual(['allow', 'allow', 'allow']);
    expect([asked(addressOf(0), 2), asked(addressOf(50), 1), asked('10.2.200.1', 1)]).toEqual(['deny', 'deny', 'deny']);
  });

  it('of 1,001 rules, 1,001 ports in a rule or 20,001 peers is rejected, by field', () => {
    const anybody = { from: [] };
    expect(served(Array(1_001).fill({ from: [{ podSelector: {} }] })).refused).toEqual(['spec.ingress[1000]: more than 1000 rules']);
    const ports = served([{ ...anybody, ports: Array.from({ length: 1_001 }, (_, at) => ({ port: at + 1 })) }]);
    expect([ports.refused, ports.asked('20.0.0.1', 80)]).toEqual([['spec.ingress[0]: more than 1000 ports'], 'deny']);
    const peers = served([{ from: Array(20_001).fill({ podSelector: {} }) }]);
    expect([peers.refused, peers.asked(addressOf(0), 80)]).toEqual([['spec.ingress[0]: more than 20000 peers'], 'deny']);
  });
});
