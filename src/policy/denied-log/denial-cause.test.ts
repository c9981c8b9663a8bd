import { expect, it } from 'vitest';
import { objectSet, provenNode, put } from '../../../test/model/policy-proof.ts';
import { clusterPolicyObject } from '../../../test/support/cluster-policy-cases.ts';
import { exampleCluster, policyObject } from '../../../test/support/policy-cluster.ts';
import { parseIp } from '../../base/net/ip.ts';
import { serviceNextHop } from '../../dataplane/pipeline/well-known.ts';
import { PolicyEngine } from '../engine/policy-engine.ts';
import { denyingClusterRule, isTranslatedSelf } from './denial-cause.ts';

const all = { namespaces: {} };
const api = { pods: { namespaceSelector: {}, podSelector: { matchLabels: { app: 'api' } } } };
const clusterNetworkPolicies = [
  clusterPolicyObject('tenants', {
    ingress: [
      { action: 'Pass', from: [api] },
      { action: 'Deny', from: [all], protocols: [{ tcp: {} }] },
    ],
  }),
  clusterPolicyObject('floor', { tier: 'Baseline', egress: [{ action: 'Deny', to: [all] }] }),
];
const networkPolicies = [policyObject('shop/db', { podSelector: { matchLabels: { app: 'db' } }, policyTypes: ['Ingress'] })];
const engine = new PolicyEngine(provenNode);
for (const each of objectSet({ ...exampleCluster, networkPolicies, clusterNetworkPolicies }).values()) put(engine, each);
engine.update();

const own = parseIp('10.10.0.5');
const attempt = (direction: 'ingress' | 'egress', peer: string, protocol = 'TCP') => ({
  ...{ direction, own, peer: parseIp(peer), protocol },
  ports: { source: 40_000, destination: 80 },
});
const causeOf = (...of: Parameters<typeof attempt>) => denyingClusterRule(engine.matrix, 'shop/db', attempt(...of));

it('names the rule and tier of the cluster policy that denies', () => {
  expect(causeOf('ingress', '10.10.4.7')).toEqual({ name: 'tenants spec.ingress[1]', tier: 'Admin' });
  expect(causeOf('egress', '10.10.4.7')).toEqual({ name: 'floor spec.egress[0]', tier: 'Baseline' });
});

it('names none if NetworkPolicies deny, or no policy does', () => {
  expect([causeOf('ingress', '10.10.0.6'), causeOf('ingress', '10.10.4.7', 'UDP'), causeOf('egress', '198.51.100.7')]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
});

it('recognises a pod that a Service returned to itself', () => {
  expect(isTranslatedSelf(own)).toBe(false);
  expect(causeOf('ingress', serviceNextHop.ipv4.text)).toEqual({ name: 'tenants spec.ingress[1]', tier: 'Admin' });
  expect(causeOf('egress', own.text)).toEqual({ name: 'floor spec.egress[0]', tier: 'Baseline' });
});
