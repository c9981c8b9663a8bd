import { describe, expect, it } from 'vitest';
import { networkPolicies } from '../../kubernetes/resources/network-policy.ts';
import { type PolicyIntent, policyIntent } from './intent.ts';
import { RecentRules } from './recent-rules.ts';

const intentOf = (name: string, port: number | string = 80): PolicyIntent => {
  const spec = { podSelector: {}, policyTypes: ['Ingress'], ingress: [{ ports: [{ protocol: 'TCP', port }] }] };
  const policy = networkPolicies.project({ metadata: { namespace: 'shop', name, uid: name, generation: 1 }, spec });
  if (!policy) throw new Error('no policy');
  return policyIntent(policy);
};

describe('the rules of pods', () => {
  it('are built once for pods that have the same', () => {
    const rules = new RecentRules();
    const policies = [intentOf('one'), intentOf('two')];
    expect(rules.of('ingress', policies, {})).toBe(rules.of('ingress', [...policies], {}));
    expect(rules.of('ingress', policies, {})?.isolatedBy).toEqual(['shop/one', 'shop/two']);
  });

  it('are rebuilt when one of their policies is another one by the same name', () => {
    const rules = new RecentRules();
    const portsOf = (policy: PolicyIntent) => rules.of('ingress', [policy], {})?.rules[0]?.ports;
    expect(portsOf(intentOf('one', 80))).toEqual([{ protocol: 'TCP', first: 80, last: 80 }]);
    expect(portsOf(intentOf('one', 81))).toEqual([{ protocol: 'TCP', first: 81, last: 81 }]);
  });

  it('depend on a direction, and on the pod’s own ports if needed', () => {
    const rules = new RecentRules();
    const policies = [intentOf('one', 'http')];
    const at = (port: number) => rules.of('ingress', policies, { 'http/TCP': port })?.rules[0]?.ports;
    expect(at(8080)).toEqual([{ protocol: 'TCP', first: 8080, last: 8080 }]);
    expect(at(8081)).toEqual([{ protocol: 'TCP', first: 8081, last: 8081 }]);
    expect(rules.of('egress', policies, {})).toBeUndefined();
    expect(rules.of('ingress', [], {})).toBeUndefined();
  });

  it('are not kept for a deleted policy', () => {
    const rules = new RecentRules();
    const [gone, other] = [[intentOf('one')], [intentOf('two')]];
    const made = [gone, other].map((policies) => rules.of('ingress', policies, {}));
    for (const policy of gone) rules.forget(policy);
    expect(rules.of('ingress', gone, {})).not.toBe(made[0]);
    expect(rules.of('ingress', other, {})).toBe(made[1]);
  });

  it('are kept for a bounded number of kinds of pods, the most recent ones', () => {
    const rules = new RecentRules();
    const kinds = Array.from({ length: 129 }, (_, at) => [intentOf(`p${at}`)]);
    const made = kinds.map((policies) => rules.of('ingress', policies, {}));
    expect(rules.of('ingress', kinds[128] ?? [], {})).toBe(made[128]);
    expect(rules.of('ingress', kinds[1] ?? [], {})).toBe(made[1]);
    expect(rules.of('ingress', kinds[0] ?? [], {})).not.toBe(made[0]);
  });
});
