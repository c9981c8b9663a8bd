import { describe, expect, it } from 'vitest';
import { clusterNetworkPoliciesOf } from '../../kubernetes/resources/cluster-network-policy.ts';
import { networkPolicies } from '../../kubernetes/resources/network-policy.ts';
import { PolicyFlows } from '../flows/policy-flows.ts';
import { interpret } from '../matrix/interpret.ts';
import type { PolicyOutcome } from '../matrix/matrix.ts';
import { PolicyEngine } from './policy-engine.ts';

const clusterPolicies = clusterNetworkPoliciesOf('v1beta1');
const pod = (name: string, nodeName: string, ip: string) => ({ namespace: 'shop', name, nodeName, podIps: [ip], labels: {}, ports: {} });

function engineWith(denied?: PolicyOutcome['denial']): PolicyEngine {
  const engine = new PolicyEngine('n1');
  engine.putNode({ name: 'n1', podCidrs: ['10.10.0.0/22'], addresses: [] });
  engine.putNamespace('shop', {}, denied);
  engine.putPod(pod('web', 'n1', '10.10.0.5'));
  engine.putPod(pod('far', 'n2', '10.10.4.9'));
  return engine;
}

const isolating = (name = 'web') =>
  networkPolicies.project({
    metadata: { namespace: 'shop', name, uid: 'p', generation: 1 },
    spec: { podSelector: {}, policyTypes: ['Ingress'], ingress: [{ ports: [{ port: 80 }] }] },
  }) ?? expect.fail();

const denying = (denied?: string, name = 'lock') =>
  clusterPolicies.project({
    metadata: { name, uid: 'c', ...(denied && { annotations: { 'seine.dev/denied': denied } }) },
    spec: {
      tier: 'Admin',
      priority: 1,
      subject: { namespaces: {} },
      ingress: [
        { action: 'Accept', from: [{ namespaces: {} }], protocols: [{ tcp: { destinationPort: { number: 80 } } }] },
        { action: 'Deny', from: [{ namespaces: {} }] },
      ],
    },
  }) ?? expect.fail();

const answerAt = (engine: PolicyEngine, port: number) => {
  engine.update();
  return interpret(engine.matrix, { direction: 'ingress', pod: 'shop/web', address: '10.10.4.9', protocol: 'TCP', port });
};

describe('the answer to denied clients', () => {
  it.each(['reject', 'drop', undefined] as const)('is that of the namespace for NetworkPolicies: %s', (denied) => {
    const engine = engineWith(denied);
    engine.putPolicy(isolating());
    expect(answerAt(engine, 81)).toEqual({ verdict: 'deny', by: ['shop/web'], why: 'decision', ...(denied && { denial: denied }) });
    expect(answerAt(engine, 80)).toMatchObject({ verdict: 'allow' });
    expect(answerAt(engine, 80)).not.toHaveProperty('denial');
  });

  it.each(['reject', 'drop', undefined] as const)(
    'is that of the policy for its Deny rules: %s, whatever the namespace states',
    (denied) => {
      const engine = engineWith('reject');
      engine.putClusterPolicy(denying(denied));
      expect(answerAt(engine, 81)).toEqual({
        verdict: 'deny',
        by: ['lock spec.ingress[1]'],
        tier: 'admin',
        why: 'decision',
        ...(denied && { denial: denied }),
      });
      expect(answerAt(engine, 80)).not.toHaveProperty('denial');
    },
  );

  it('follows its annotation, and is that of the pods of this namespace alone', () => {
    const engine = engineWith();
    engine.putPolicy(isolating());
    const denials = (['reject', 'drop', undefined, 'reject'] as const).map((denied) => {
      engine.putNamespace('shop', {}, denied);
      engine.putNamespace('other', {}, 'reject');
      const answer = answerAt(engine, 81);
      return 'denial' in answer ? answer.denial : undefined;
    });
    expect(denials).toEqual(['reject', 'drop', undefined, 'reject']);
    engine.removeNamespace('shop');
    expect(answerAt(engine, 81)).not.toHaveProperty('denial');
  });

  it('is loaded by the rows that deny, and by no other', () => {
    const engine = engineWith('reject');
    engine.putPolicy(isolating());
    engine.putClusterPolicy(denying('drop'));
    const flows = new PolicyFlows({ families: ['ipv4'] });
    const { wanted } = flows.update(engine.matrix, engine.update());
    const loads = [...wanted.values()].flat().flatMap(({ steps }) => {
      const values = steps.flatMap((step) => (step.do === 'load' ? [[step.mark.field, step.mark.value] as const] : []));
      const { verdict, denial } = Object.fromEntries(values);
      return verdict === undefined ? [] : [{ verdict, denial }];
    });
    // Addresses without a number are denied because they cannot be distinguished, by no rule.
    const unnumbered = { verdict: 0xc00 };
    const [allow, deny, reject, drop] = [0x800, 0xc00, 0x20, 0x40];
    expect(new Set(loads.map((each) => JSON.stringify(each)))).toEqual(
      new Set(
        [unnumbered, { verdict: allow }, { verdict: deny, denial: reject }, { verdict: deny, denial: drop }].map((each) =>
          JSON.stringify(each),
        ),
      ),
    );
  });

  it('that changes replaces the rows that load it, though rules and ports are the same', () => {
    const engine = engineWith();
    engine.putPolicy(isolating());
    const flows = new PolicyFlows({ families: ['ipv4'] });
    const loadedAfter = (denied?: 'reject' | 'drop') => {
      engine.putNamespace('shop', {}, denied);
      const { wanted } = flows.update(engine.matrix, engine.update());
      const steps = [...wanted.values()].flat().flatMap((flow) => flow.steps);
      return steps.flatMap((step) => (step.do === 'load' && step.mark.field === 'denial' ? [step.mark.value] : []));
    };
    expect([loadedAfter(), loadedAfter('reject'), loadedAfter('drop')]).toEqual([[], [0x20], [0x40]]);
  });

  it('is none for a pod whose labels are not known, where that of the rule for known pods is a refusal', () => {
    const engine = engineWith();
    const policy = clusterPolicies.project({
      metadata: { name: 'lock', uid: 'c', annotations: { 'seine.dev/denied': 'reject' } },
      spec: {
        tier: 'Admin',
        priority: 1,
        subject: { namespaces: {} },
        ingress: [{ action: 'Deny', from: [{ pods: { namespaceSelector: {}, podSelector: { matchLabels: { app: 'far' } } } }] }],
      },
    });
    engine.putNode({ name: 'n2', podCidrs: ['10.10.4.0/22'], addresses: [] });
    engine.putPod({ ...pod('far', 'n2', '10.10.4.9'), labels: { app: 'far' } });
    engine.putClusterPolicy(policy ?? expect.fail());
    engine.update();
    const answers = ['10.10.4.9', '10.10.4.77'].map((address) =>
      interpret(engine.matrix, { direction: 'ingress', pod: 'shop/web', address, protocol: 'TCP', port: 80 }),
    );
    const denied = { verdict: 'deny', by: ['lock spec.ingress[0]'], why: 'decision', tier: 'admin' };
    expect(answers).toEqual([{ ...denied, denial: 'reject' }, denied]);
  });

  it('that is not one of its values is a fault of the policy, and does not count', () => {
    expect(denying('refuse')).toMatchObject({ faults: ['metadata.annotations["seine.dev/denied"]: "refuse" is not one of drop, reject'] });
    expect(denying('refuse')).not.toHaveProperty('denied');
    expect(denying('reject')).toMatchObject({ denied: 'reject' });
  });
});
