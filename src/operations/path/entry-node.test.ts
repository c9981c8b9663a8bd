import { expect, it } from 'vitest';
import { entryNode } from './entry-node.ts';

const node = (name: string, address: string) => ({
  metadata: { name },
  spec: { podCIDRs: [`10.0.${Number(address.split('.')[3]) - 1}.0/24`] },
  status: { addresses: [{ type: 'InternalIP', address }] },
});
const service = (name: string, externalTrafficPolicy: string) => ({
  metadata: { namespace: 'shop', name },
  spec: { clusterIPs: ['10.96.0.9'], externalTrafficPolicy, externalIPs: [name === 'local' ? '203.0.113.9' : '203.0.113.10'] },
});
const objects = {
  nodes: [node('n1', '192.0.2.1'), node('n2', '192.0.2.2'), node('n3', '192.0.2.3')],
  services: [service('local', 'Local'), service('all', 'Cluster')],
  slices: ['local', 'all'].map((name) => ({
    metadata: { namespace: 'shop', labels: { 'kubernetes.io/service-name': name } },
    addressType: 'IPv4',
    endpoints: [
      { addresses: ['10.0.0.5'], nodeName: 'n1', conditions: { ready: false } },
      { addresses: ['10.0.1.5'], nodeName: 'n2' },
    ],
  })),
};
const reason = 'externalTrafficPolicy Local: enters n2, which has an endpoint; nodes without an endpoint drop such packets: n1, n3';

it.each([
  ['outside', 'service:shop/local', { node: 'n2', reason }],
  ['outside:198.51.100.7', '203.0.113.9', { node: 'n2', reason }],
  ['198.51.100.7', '192.0.2.3', { node: 'n3' }],
  ['outside', 'service:shop/all', undefined],
  ['outside', 'shop/web-0', undefined],
  ['shop/web-0', '192.0.2.3', undefined], // the packet begins on the node of the pod
  ['10.0.0.9', '192.0.2.3', undefined], // the same pod by its address
  ['10.0.0.9', 'service:shop/local', undefined],
  ['192.0.2.1', '203.0.113.9', undefined], // the packet begins on that node
])('a packet from %s to %s enters %j', (from, to, expected) => {
  expect(entryNode(objects, { from, to })).toEqual(expected);
});
