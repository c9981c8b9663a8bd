import { describe, expect, it } from 'vitest';
import { clusterPolicyCases } from '../../../../test/support/cluster-policy-cases.ts';
import { policyCases } from '../../../../test/support/policy-cases.ts';
import {
  exampleAddresses,
  exampleCluster,
  namespaceObject,
  nodeObject,
  podObject,
  policyObject,
} from '../../../../test/support/policy-cluster.ts';
import type { PolicyObjects } from './objects.ts';
import type { JudgedConnection } from './parties.ts';
import { judge } from './reference-verdict.ts';

/** Parses `db > external TCP/443` for each family in which both ends have an address. */
function connectionsOf(probe: string): readonly JudgedConnection[] {
  const [, masqueraded, from = '', to = '', protocol = '', port] = /^(masqueraded )?(.*) > (.*) (\w+?)(?:\/(\d+))?$/.exec(probe) ?? [];
  const addresses = (name: string): readonly string[] => exampleAddresses[name] ?? [name];
  return addresses(from).flatMap((source) =>
    addresses(to)
      .filter((destination) => destination.includes(':') === source.includes(':'))
      .map((destination) => ({
        from: source,
        to: destination,
        protocol,
        ...(port === undefined ? {} : { port: Number(port) }),
        ...(masqueraded ? { masqueraded: true } : {}),
      })),
  );
}

it.each(policyCases)('$name', ({ policies, allowed, denied }) => {
  expectVerdicts({ ...exampleCluster, networkPolicies: policies }, allowed, denied);
});

it.each(clusterPolicyCases)('cluster policies: $name', ({ policies, clusterPolicies, allowed, denied }) => {
  expectVerdicts({ ...exampleCluster, networkPolicies: policies, clusterNetworkPolicies: clusterPolicies }, allowed, denied);
});

function expectVerdicts(objects: PolicyObjects, allowed: readonly string[], denied: readonly string[]): void {
  const verdictsOf = (probe: string) => new Set(connectionsOf(probe).map((connection) => judge(objects, connection).verdict));
  const found = [...allowed, ...denied].map((probe) => [probe, ...verdictsOf(probe)]);
  expect(found).toEqual([...allowed.map((probe) => [probe, 'allow']), ...denied.map((probe) => [probe, 'deny'])]);
}

describe('a verdict', () => {
  const objects: PolicyObjects = {
    ...exampleCluster,
    networkPolicies: [
      policyObject('shop/b', { podSelector: {}, ingress: [{ ports: [{ port: 1 }] }, { from: [{ podSelector: {} }] }] }),
      policyObject('shop/a', { podSelector: { matchLabels: { app: 'db' } } }),
      policyObject('shop/out', { podSelector: { matchLabels: { app: 'api' } }, policyTypes: ['Egress'] }),
    ],
  };

  it('names the policies that isolate, and the rules that allow', () => {
    expect(judge(objects, { from: '10.10.0.8', to: '10.10.0.5', protocol: 'TCP', port: 1 })).toEqual({
      verdict: 'allow',
      egress: { verdict: 'allow', why: 'not isolated', isolatedBy: [], allowedBy: [] },
      ingress: { verdict: 'allow', why: 'a rule allows it', isolatedBy: ['shop/a', 'shop/b'], allowedBy: ['shop/b spec.ingress[0]'] },
    });
    expect(judge(objects, { from: '10.10.0.6', to: '10.10.0.5', protocol: 'TCP', port: 1 })).toMatchObject({
      verdict: 'deny',
      egress: { why: 'no rule allows it', isolatedBy: ['shop/out'] },
      ingress: { verdict: 'allow', allowedBy: ['shop/b spec.ingress[0]', 'shop/b spec.ingress[1]'] },
    });
  });

  it('has no end outside of pods', () => {
    expect(judge(objects, { from: '203.0.113.9', to: '192.168.77.1', protocol: 'TCP', port: 1 })).toEqual({ verdict: 'allow' });
    expect(judge(objects, { from: '203.0.113.9', to: '10.10.6.77', protocol: 'TCP', port: 1 })).toEqual({ verdict: 'allow' });
  });
});

describe('an address of two pods', () => {
  const fromB = { podSelector: { matchLabels: { app: 'to' } }, ingress: [{ from: [{ podSelector: { matchLabels: { app: 'b' } } }] }] };
  const scene = (a: Parameters<typeof podObject>[2], b: Parameters<typeof podObject>[2]): PolicyObjects => ({
    nodes: [nodeObject('n1', ['10.10.0.0/24'], []), nodeObject('n2', ['10.10.1.0/24'], [])],
    namespaces: [namespaceObject('x')],
    pods: [
      podObject('x/to', ['10.10.0.9'], { labels: { app: 'to' } }),
      podObject('x/a', ['10.10.1.5'], { labels: { app: 'a' }, ...a }),
      podObject('x/b', ['10.10.1.5'], { labels: { app: 'b' }, ...b }),
    ],
    networkPolicies: [policyObject('x/only', fromB)],
  });
  const probe: JudgedConnection = { from: '10.10.1.5', to: '10.10.0.9', protocol: 'TCP', port: 1 };

  it.each([
    ['the one on the node of that network', { createdAt: '2026-02-01' }, { node: 'n2', createdAt: '2026-01-01' }, 'allow'],
    ['the younger one', { node: 'n2', createdAt: '2026-01-01' }, { node: 'n2', createdAt: '2026-02-01' }, 'allow'],
    ['the younger one', { node: 'n2', createdAt: '2026-02-01' }, { node: 'n2', createdAt: '2026-01-01' }, 'deny'],
    ['the live one', { node: 'n2', createdAt: '2026-02-01', phase: 'Failed' }, { createdAt: '2026-01-01' }, 'allow'],
  ])('is that of %s', (_, a, b, verdict) => {
    expect(judge(scene(a, b), probe).verdict).toBe(verdict);
  });
});

it('selects a pod of an unknown namespace only with an empty namespace selector', () => {
  const to = podObject('x/to', ['10.10.0.9'], { labels: { app: 'to' } });
  const verdict = (namespaceSelector: object) =>
    judge(
      {
        nodes: [nodeObject('n1', ['10.10.0.0/24'], [])],
        namespaces: [namespaceObject('x')],
        pods: [to, podObject('gone/a', ['10.10.0.5'])],
        networkPolicies: [policyObject('x/only', { podSelector: {}, ingress: [{ from: [{ namespaceSelector }] }] })],
      },
      { from: '10.10.0.5', to: '10.10.0.9', protocol: 'TCP', port: 1 },
    ).verdict;
  expect(verdict({})).toBe('allow');
  expect(verdict({ matchExpressions: [{ key: 'env', operator: 'DoesNotExist' }] })).toBe('deny');
});

it('uses the first container with a port of that name', () => {
  const ports = (containerPort: number, protocol?: string) => ({
    ports: [{ name: 'http', containerPort, ...(protocol ? { protocol } : {}) }],
  });
  const verdict = (port: number) =>
    judge(
      {
        nodes: [],
        namespaces: [],
        pods: [podObject('x/to', ['10.10.0.9'], { containers: [ports(53, 'UDP'), ports(80), ports(81)] })],
        networkPolicies: [policyObject('x/only', { podSelector: {}, ingress: [{ ports: [{ port: 'http' }] }] })],
      },
      { from: '10.0.0.1', to: '10.10.0.9', protocol: 'TCP', port },
    ).verdict;
  expect([53, 80, 81].map(verdict)).toEqual(['deny', 'allow', 'deny']);
});
