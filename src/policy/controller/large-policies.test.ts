import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { EnforcementScene, policy, web } from '../../../test/support/enforcement-scene.ts';
import { LoopTurns } from '../../base/async/loop-turns.ts';
import { policyPods } from '../../kubernetes/resources/policy-pod.ts';

/** Maximum size of an object in the API server (etcd's `--max-request-bytes`). */
const storedBytes = 1_500_000;
/** Maximum number of flows of one node for the largest policy: its rules in both directions. */
const flowsMost = 12_000;
/** Maximum number of changes of the desired state between two turns. */
const wantedAtOnceMost = 40;
const never = new AbortController().signal;
const list = <T>(length: number, make: (index: number) => T): T[] => Array.from({ length }, (_, index) => make(index));
const ipOf = (first: number, at: number): string => `${first}.${(at >> 16) & 255}.${(at >> 8) & 255}.${at & 255}`;

const block = (at: number) => ({ ipBlock: { cidr: `${ipOf(30, at * 2)}/32` } });
const port = (at: number) => ({ protocol: 'TCP', port: at * 2 + 1 });
const labelOf = (at: number) => `example.com/label-${at}`;
const requirement = (at: number) => ({ key: labelOf(at), operator: 'NotIn', values: ['x'] });

/** Repeating fields of a NetworkPolicy that the agent reads, each with `count` elements, in the first rule if they belong to a rule. */
const fields: Readonly<Record<string, { readonly at: 'spec' | 'rule' | 'peer' | 'egress'; readonly make: (count: number) => object }>> = {
  ingress: { at: 'spec', make: (count) => ({ ingress: list(count, (at) => ({ from: [block(at)], ports: [port(at)] })) }) },
  egress: { at: 'egress', make: (count) => ({ egress: list(count, (at) => ({ to: [block(at)], ports: [port(at)] })) }) },
  'ingress.from': { at: 'rule', make: (count) => ({ from: list(count, block) }) },
  'ingress.ports': { at: 'rule', make: (count) => ({ ports: list(count, port) }) },
  'ingress.from.ipBlock.except': {
    at: 'peer',
    make: (count) => ({ ipBlock: { cidr: '30.0.0.0/8', except: list(count, (at) => `${ipOf(30, at * 2)}/32`) } }),
  },
  'ingress.from.podSelector.matchExpressions': {
    at: 'peer',
    make: (count) => ({ podSelector: { matchExpressions: list(count, requirement) } }),
  },
  'ingress.from.namespaceSelector.matchExpressions.values': {
    at: 'peer',
    make: (count) => ({ namespaceSelector: { matchExpressions: [{ key: 'x', operator: 'NotIn', values: list(count, labelOf) }] } }),
  },
  'podSelector.matchExpressions': { at: 'spec', make: (count) => ({ podSelector: { matchExpressions: list(count, requirement) } }) },
  'podSelector.matchLabels': {
    at: 'spec',
    make: (count) => ({ podSelector: { matchLabels: Object.fromEntries(list(count, (at) => [labelOf(at), 'x'])) } }),
  },
};

function half(name: string): object {
  const { make } = fields[name] ?? { make: () => ({}) };
  const each = (JSON.stringify(make(1_000)).length - JSON.stringify(make(0)).length) / 1_000;
  return make(Math.min(32_767, Math.floor(storedBytes / 2 / each)));
}

/** Policy with both fields, each half of the object. */
function policyWith(...names: readonly string[]): object {
  const of = (at: string): readonly object[] => names.filter((name) => fields[name]?.at === at).map(half);
  const peers = of('peer');
  const rule = { ...(peers.length > 0 ? { from: peers } : {}) };
  for (const part of of('rule'))
    Object.assign(rule, { ...part, ...('from' in part ? { from: [...peers, ...(part.from as object[])] } : {}) });
  const spec = { podSelector: {}, policyTypes: ['Ingress', 'Egress'], ...(Object.keys(rule).length > 0 ? { ingress: [rule] } : {}) };
  for (const part of [...of('spec'), ...of('egress')]) {
    const ingress = 'ingress' in part && 'ingress' in spec ? [...(part.ingress as object[]), ...spec.ingress] : undefined;
    Object.assign(spec, part, ingress ? { ingress } : {});
  }
  return spec;
}

const names = Object.keys(fields);
const pairs = names.flatMap((first, at) => names.slice(at + 1).map((second) => [first, second] as const));

/** Turns that end after each step, and the largest number of changed entries in one of them. */
function counted(scene: EnforcementScene) {
  const turns = new LoopTurns(0);
  const next = turns.next.bind(turns);
  const work = { most: 0, turns: 0 };
  let before = 0;
  const note = (): void => {
    work.most = Math.max(work.most, scene.bridge.calls.length - before);
    work.turns++;
    before = scene.bridge.calls.length;
  };
  vi.spyOn(turns, 'next').mockImplementation(async () => {
    note();
    await next();
  });
  return { turns, work, note };
}

function expectBounded(scene: EnforcementScene, work: { readonly most: number }): void {
  const flows = [...scene.bridge.wanted.values()].reduce((sum, wanted) => sum + wanted.flows.length, 0);
  expect(flows).toBeLessThanOrEqual(flowsMost);
  expect(work.most).toBeLessThanOrEqual(wantedAtOnceMost);
}

describe('the largest objects that an API server stores', () => {
  it.each(pairs)('a large policy is bounded and enforced in short turns: %s and %s', async (first, second) => {
    const scene = new EnforcementScene();
    onTestFinished(() => scene.end());
    const { turns, work, note } = counted(scene);
    const enforcement = await scene.enforce({ turns });
    await enforcement.attach(web, never);
    scene.put(policy('large', policyWith(first, second)));
    await enforcement.settled();
    note();
    expectBounded(scene, work);
    // Nothing of the policy is left.
    const [large] = [...scene.policies.entries()].map(([, each]) => each);
    if (large) scene.remove(large);
    await enforcement.settled();
    expect([...scene.bridge.wanted.keys()].filter((owner) => owner.startsWith('policy/'))).toEqual([]);
  });

  it.each([
    ['labels and ports', { labels: 12_000, ports: 6_000 }],
    ['labels and annotations', { labels: 12_000, annotations: 6_000 }],
    ['ports and annotations', { ports: 6_000, annotations: 6_000 }],
  ])('a large pod is bounded, as a peer of a policy: %s', async (_, sizes) => {
    const scene = new EnforcementScene();
    onTestFinished(() => scene.end());
    const { turns, work, note } = counted(scene);
    const enforcement = await scene.enforce({ turns });
    await enforcement.attach(web, never);
    scene.put(policy('peers', { podSelector: {}, ingress: [{ from: [{ podSelector: { matchLabels: { app: 'large' } } }] }] }));
    await enforcement.settled();
    const before = scene.bridge.wanted.size;
    const pod = podWith(sizes);
    scene.listWeb(pod);
    await enforcement.settled();
    note();
    expectBounded(scene, work);
    expect(scene.bridge.wanted.size - before).toBeLessThanOrEqual(2);
    expect(Object.keys(pod.labels)).toHaveLength(('labels' in sizes ? sizes.labels : 0) + 1);
  });
});

function podWith({ labels = 0, ports: portCount = 0, annotations = 0 }: Partial<Record<'labels' | 'ports' | 'annotations', number>>) {
  const texts = (count: number) => Object.fromEntries(list(count, (at) => [labelOf(at), 'x']));
  const pod = policyPods.project({
    metadata: { namespace: 'shop', name: 'large', uid: 'l', labels: { ...texts(labels), app: 'large' }, annotations: texts(annotations) },
    spec: {
      nodeName: 'n2',
      containers: [{ name: 'c', ports: list(portCount, (at) => ({ name: `p${at}`, containerPort: at + 1, protocol: 'TCP' })) }],
    },
    status: { phase: 'Running', podIP: '10.10.9.9', podIPs: [{ ip: '10.10.9.9' }] },
  });
  if (pod === undefined) throw new Error('no pod');
  return pod;
}
