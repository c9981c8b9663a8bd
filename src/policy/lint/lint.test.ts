import { describe, expect, it } from 'vitest';
import { exampleCluster, podObject, policyObject } from '../../../test/support/policy-cluster.ts';
import type { ReachObjects } from '../reach/objects.ts';
import type { NetworkPolicyObject } from '../verify/reference/objects.ts';
import { lint } from './lint.ts';

type Spec = NetworkPolicyObject['spec'];
const db = { podSelector: { matchLabels: { app: 'db' } } } as const;
const api = { podSelector: { matchLabels: { app: 'api' } } } as const;
const dns = { to: [{ namespaceSelector: {} }], ports: [{ protocol: 'UDP', port: 53 }] } as const;

const objectsWith = (specs: readonly Spec[], more: Partial<ReachObjects> = {}): ReachObjects => ({
  ...exampleCluster,
  services: [],
  networkPolicies: specs.map((spec, at) => policyObject(`shop/p${at}`, spec)),
  ...more,
});
const codesOf = (specs: readonly Spec[], more?: Partial<ReachObjects>) =>
  lint(objectsWith(specs, more)).map(({ code, level, policy, field }) => `${level} ${code} ${policy} ${field}`);

it('finds nothing in policies without mistakes', () => {
  expect(
    codesOf([
      { podSelector: {}, policyTypes: ['Ingress', 'Egress'] },
      { ...db, ingress: [{ from: [api], ports: [{ port: 'sql' }] }] },
      { ...api, policyTypes: ['Egress'], egress: [{ to: [db] }, dns] },
      { ...db, ingress: [{ from: [{ ipBlock: { cidr: '0.0.0.0/0', except: ['10.10.0.0/22'] } }] }] },
    ]),
  ).toEqual([]);
});

it.each<[string, Spec, readonly string[]]>([
  ['a policy for no pod', { podSelector: { matchLabels: { app: 'none' } } }, ['warning P03 shop/p0 spec.podSelector']],
  [
    'a peer without pods',
    { ...db, ingress: [{ from: [api, { podSelector: { matchLabels: { app: 'none' } } }] }] },
    ['warning P03 shop/p0 spec.ingress[0].from[1]'],
  ],
  [
    'a peer in no namespace',
    { ...db, ingress: [{ from: [{ namespaceSelector: { matchLabels: { env: 'none' } } }] }] },
    ['warning P03 shop/p0 spec.ingress[0].from[0]'],
  ],
  [
    'selectors in two entries',
    { ...db, ingress: [{ from: [{ namespaceSelector: { matchLabels: { env: 'dev' } } }, api] }] },
    ['warning P06 shop/p0 spec.ingress[0].from[0]'],
  ],
  [
    'a network of pods',
    { ...db, ingress: [{ from: [{ ipBlock: { cidr: '10.10.4.0/24' } }] }] },
    ['warning P07 shop/p0 spec.ingress[0].from[0].ipBlock.cidr'],
  ],
  [
    'a port name of no pod',
    { ...db, ingress: [{ ports: [{ port: 'sql' }, { port: 'none' }] }] },
    ['warning P08 shop/p0 spec.ingress[0].ports[1].port'],
  ],
  [
    'a port name of another protocol',
    { ...db, ingress: [{ ports: [{ port: 'sql', protocol: 'UDP' }] }] },
    ['warning P08 shop/p0 spec.ingress[0].ports[0].port'],
  ],
  ['egress rules that are ignored', { ...db, policyTypes: ['Ingress'], egress: [{}] }, ['error P09 shop/p0 spec.egress']],
  ['ingress rules that are ignored', { ...api, policyTypes: ['Egress'], ingress: [{}] }, ['error P09 shop/p0 spec.ingress']],
  ['egress rules that also isolate ingress', { ...api, egress: [{}] }, ['warning P09 shop/p0 spec.policyTypes']],
  [
    'a field of a newer version',
    { ...db, ingress: [{ from: [{ ...api, serviceAccount: 'x' } as object] }] },
    ['error P12 shop/p0 spec.ingress[0].from[0]'],
  ],
])('finds %s', (_, spec, codes) => {
  expect(codesOf([spec])).toEqual(codes);
});

describe('P04', () => {
  const out = { ...api, policyTypes: ['Egress'] };
  const server = podObject('kube-system/coredns', ['10.10.4.20'], {
    node: 'n2',
    labels: { 'k8s-app': 'kube-dns' },
    containers: [{ ports: [{ name: 'dns', containerPort: 53, protocol: 'UDP' }] }],
  });
  const withServer = {
    pods: [...exampleCluster.pods, server],
    namespaces: [...exampleCluster.namespaces, { metadata: { name: 'kube-system', labels: { system: 'yes' } } }],
  };
  const finding = ['warning P04 shop/p0 spec.egress'];

  it('finds pods that may reach something and not DNS', () => {
    expect(codesOf([{ ...out, egress: [{ to: [db], ports: [{ port: 5432 }] }] }])).toEqual(finding);
    expect(codesOf([{ ...out, egress: [{ to: [db] }] }], withServer)).toEqual(finding);
    expect(codesOf([{ ...out, egress: [{ to: [db] }] }])).toEqual(finding);
    expect(codesOf([{ ...out, egress: [{ ports: [{ port: 53 }] }] }])).toEqual(finding);
  });

  it.each<[string, readonly Spec[]]>([
    ['nothing may be reached', [{ ...out, egress: [] }]],
    [
      'another policy of the pod allows DNS',
      [
        { ...out, egress: [{ to: [db] }] },
        { podSelector: {}, policyTypes: ['Egress'], egress: [{ to: [{ namespaceSelector: { matchLabels: { system: 'yes' } } }] }] },
      ],
    ],
    [
      'a network may be reached at every port',
      [{ ...out, egress: [{ to: [{ ipBlock: { cidr: '10.0.0.0/8', except: ['10.10.0.0/16'] } }] }] }],
    ],
    [
      'the port is named',
      [
        {
          ...out,
          egress: [{ to: [{ namespaceSelector: { matchLabels: { system: 'yes' } } }], ports: [{ port: 'dns', protocol: 'UDP' }] }],
        },
      ],
    ],
    ['a range contains the port', [{ ...out, egress: [{ ports: [{ port: 1, endPort: 1024, protocol: 'UDP' }] }] }]],
  ])('finds nothing where %s', (_, specs) => {
    expect(codesOf(specs, withServer)).toEqual([]);
  });
});

it('finds networks of clients whose address a Service replaces', () => {
  const service = (type: string, externalTrafficPolicy?: string) => ({
    metadata: { namespace: 'shop', name: 'db' },
    spec: { selector: { app: 'db' }, type, ports: [{ port: 1 }], ...(externalTrafficPolicy ? { externalTrafficPolicy } : {}) },
  });
  const spec = { ...db, ingress: [{ from: [{ ipBlock: { cidr: '203.0.113.0/24' } }] }] };
  const finding = ['warning P14 shop/p0 spec.ingress[0].from[0].ipBlock.cidr'];
  expect(codesOf([spec], { services: [service('LoadBalancer')] })).toEqual(finding);
  expect(codesOf([spec], { services: [service('NodePort', 'Cluster')] })).toEqual(finding);
  expect(codesOf([spec], { services: [service('LoadBalancer', 'Local'), service('ClusterIP')] })).toEqual([]);
});
