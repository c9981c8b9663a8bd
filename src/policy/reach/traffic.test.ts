import { expect, it } from 'vitest';
import { exampleCluster, policyObject } from '../../../test/support/policy-cluster.ts';
import { CaseRunner } from './cases.ts';
import type { ReachObjects } from './objects.ts';
import { Reach } from './reach.ts';
import { withTraffic } from './traffic.ts';

const objects: ReachObjects = {
  ...exampleCluster,
  services: [],
  networkPolicies: [
    policyObject('shop/db', {
      podSelector: { matchLabels: { app: 'db' } },
      ingress: [
        { from: [{ podSelector: { matchLabels: { app: 'api' } } }], ports: [{ port: 'sql' }] },
        { from: [{ namespaceSelector: { matchLabels: { stage: 'test' } } }] },
        { from: [{ ipBlock: { cidr: '203.0.113.0/24' } }] },
      ],
    }),
  ],
};
const workload = (text: string) => ({ Internal: { Workload: text } });
const pod = (Namespace: string, PodLabels: object, NamespaceLabels?: object) => ({ Internal: { Namespace, PodLabels, NamespaceLabels } });
const traffic = (Source: object, Destination: object, ResolvedPort: number, more: object = {}) => ({
  Source,
  Destination,
  Protocol: 'TCP',
  ResolvedPort,
  ...more,
});

function verdictsOf(...entries: readonly object[]) {
  const scene = withTraffic(entries, objects);
  const runner = new CaseRunner(new Reach(scene.objects));
  return scene.cases.map(({ text, evaluated }) => {
    const { found, disagreements } = runner.run(evaluated);
    return [text, found, disagreements.length];
  });
}

it('evaluates workloads, pods that do not exist, and external addresses', () => {
  expect(
    verdictsOf(
      traffic(workload('shop/deployment/api'), workload('shop/pod/db'), 5432),
      traffic(workload('shop/deployment/web'), workload('shop/pod/db'), 5432),
      traffic(pod('shop', { app: 'api' }), workload('shop/pod/db'), 5432),
      traffic(pod('new', { app: 'api' }, { stage: 'test' }), workload('shop/pod/db'), 22),
      traffic(pod('other', { app: 'api' }), workload('shop/pod/db'), 22),
      traffic(workload('shop/deployment/api'), pod('shop', { app: 'db' }), 1521, { ResolvedPortName: 'sql' }),
      traffic(workload('shop/deployment/api'), pod('shop', { app: 'db' }), 1521),
      traffic({ IP: '203.0.113.9' }, workload('shop/pod/db'), 1),
      traffic({ IP: '198.51.100.9' }, workload('shop/pod/db'), 1),
    ),
  ).toEqual([
    ['shop/api to shop/db, TCP 5432', 'allow', 0],
    ['shop/web to shop/db, TCP 5432', 'deny', 0],
    ['shop/{"app":"api"} to shop/db, TCP 5432', 'allow', 0],
    ['new/{"app":"api"} to shop/db, TCP 22', 'allow', 0],
    ['other/{"app":"api"} to shop/db, TCP 22', 'deny', 0],
    ['shop/api to shop/{"app":"db"}, TCP 1521', 'allow', 0],
    ['shop/api to shop/{"app":"db"}, TCP 1521', 'deny', 0],
    ['outside 203.0.113.9 to shop/db, TCP 1', 'allow', 0],
    ['outside 198.51.100.9 to shop/db, TCP 1', 'deny', 0],
  ]);
});

it.each<[string, object, string]>([
  ['a workload without a kind', traffic(workload('shop/api'), workload('shop/pod/db'), 1), '[0].Source.Internal.Workload: "shop/api"'],
  ['an end without an address', traffic(workload('shop/pod/db'), {}, 1), '[0].Destination: neither Internal nor an address'],
  ['a port that is none', traffic(workload('shop/pod/db'), { IP: '192.0.2.1' }, 70_000), '[0].ResolvedPort'],
])('refuses %s', (_, each, message) => {
  expect(() => withTraffic([each], objects)).toThrow(message);
});
