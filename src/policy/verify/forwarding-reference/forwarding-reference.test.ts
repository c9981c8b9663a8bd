import { expect, it } from 'vitest';
import type { ForwardedObjects, ForwardedPacket } from './forwarded-objects.ts';
import { meaningOf } from './forwarding-reference.ts';

const pod = (name: string, app: string, ip: string, nodeName: string) => ({
  metadata: { namespace: 'shop', name, labels: { app } },
  spec: { nodeName, containers: [] },
  status: { phase: 'Running', podIPs: [{ ip }] },
});

const node = (name: string, cidr: string) => ({ metadata: { name }, spec: { podCIDRs: [cidr] }, status: { addresses: [] } });

const endpoint = (address: string, nodeName: string, ready: boolean) => ({ addresses: [address], nodeName, conditions: { ready } });

const objects: ForwardedObjects = {
  namespaces: [{ metadata: { name: 'shop' } }],
  pods: [pod('web-0', 'web', '10.0.0.5', 'n1'), pod('db-0', 'db', '10.0.1.5', 'n2'), pod('db-1', 'db', '10.0.0.6', 'n1')],
  nodes: [node('n1', '10.0.0.0/24'), node('n2', '10.0.1.0/24')],
  networkPolicies: [
    {
      metadata: { namespace: 'shop', name: 'db' },
      spec: {
        podSelector: { matchLabels: { app: 'db' } },
        ingress: [{ from: [{ podSelector: { matchLabels: { app: 'web' } } }], ports: [{ port: 8080 }] }],
      },
    },
  ],
  services: [
    { metadata: { namespace: 'shop', name: 'db' }, spec: { clusterIPs: ['10.96.0.9'], ports: [{ port: 80 }] } },
    {
      metadata: { namespace: 'shop', name: 'near' },
      spec: { clusterIPs: ['10.96.0.10'], ports: [{ port: 80 }], internalTrafficPolicy: 'Local' },
    },
  ],
  slices: ['db', 'near'].map((name) => ({
    metadata: { namespace: 'shop', labels: { 'kubernetes.io/service-name': name } },
    addressType: 'IPv4',
    ports: [{ port: 8080 }],
    endpoints: [endpoint('10.0.1.5', 'n2', true), endpoint('10.0.0.6', 'n1', false)],
  })),
};

const asked = (destination: string, port: number, more: Partial<ForwardedPacket> = {}): ForwardedPacket => ({
  source: '10.0.0.5',
  destination,
  protocol: 'TCP',
  port,
  node: 'n1',
  ...more,
});

it.each<readonly [string, ForwardedPacket, { address: string; port: number } | undefined, string, string]>([
  ['a rule allows a pod', asked('10.0.1.5', 8080), undefined, 'allowed', 'rules allow it'],
  ['no rule allows another port', asked('10.0.1.5', 9090), undefined, 'denied', 'ingress: no rule allows it'],
  ['no pod has the address', asked('10.0.1.77', 80), undefined, 'denied', 'no pod has the address 10.0.1.77'],
  ['the address is the node’s', asked('10.0.1.1', 80), undefined, 'allowed', 'no policy isolates an end'],
  ['the address is outside', asked('203.0.113.1', 443), undefined, 'allowed', 'no policy isolates an end'],
  ['the endpoint is ready', asked('10.96.0.9', 80), { address: '10.0.1.5', port: 8080 }, 'allowed', 'rules allow it'],
  ['the endpoint is not ready', asked('10.96.0.9', 80), { address: '10.0.0.6', port: 8080 }, 'denied', 'is no endpoint of Service shop/db'],
  ['the Service has no such port', asked('10.96.0.9', 81), undefined, 'denied', 'Service shop/db has no port 81/TCP'],
  ['no endpoint is on the node', asked('10.96.0.10', 80), undefined, 'denied', 'has no endpoint for a client on n1'],
  ['an endpoint is on the node', asked('10.96.0.10', 80, { node: 'n2' }), undefined, 'allowed', 'rules allow it'],
])('%s', (_, packet, chosen, verdict, why) => {
  const meaning = meaningOf(objects, packet, chosen);
  expect(meaning.verdict).toBe(verdict);
  expect(meaning.why).toContain(why);
});

const open: ForwardedObjects = {
  ...objects,
  nodes: [
    { ...node('n1', '10.0.0.0/24'), status: { addresses: [{ type: 'InternalIP', address: '192.0.2.1' }] } },
    {
      ...node('n2', '10.0.1.0/24'),
      status: { addresses: ['192.0.2.2', '2001:db8::2'].map((address) => ({ type: 'InternalIP', address })) },
    },
  ],
  networkPolicies: [
    {
      metadata: { namespace: 'shop', name: 'clients' },
      spec: { podSelector: { matchLabels: { app: 'db' } }, ingress: [{ from: [{ ipBlock: { cidr: '198.51.100.0/24' } }] }] },
    },
  ],
  services: [
    {
      metadata: { namespace: 'shop', name: 'db' },
      spec: {
        type: 'LoadBalancer',
        clusterIPs: ['10.96.0.9'],
        ports: [{ port: 80, nodePort: 30_080 }],
        externalIPs: ['203.0.113.9'],
        externalTrafficPolicy: 'Local',
        loadBalancerSourceRanges: ['198.51.100.0/25'],
      },
      status: { loadBalancer: { ingress: [{ ip: '203.0.113.80' }] } },
    },
  ],
};
const anywhere = {
  ...open,
  services: open.services.map((each) => ({ ...each, spec: { ...each.spec, externalTrafficPolicy: 'Cluster' } })),
};

const sixth = { ...open, services: open.services.map((each) => ({ ...each, spec: { ...each.spec, externalIPs: ['2001:db8:eeee::9'] } })) };

const fromOutside = (destination: string, port: number, source = '198.51.100.7', entry = 'n2') =>
  asked(destination, port, { source, node: entry });

it.each<readonly [string, ForwardedObjects, ForwardedPacket, string, string]>([
  ['a load balancer admits the client', open, fromOutside('203.0.113.80', 80), 'allowed', 'rules allow it'],
  [
    'no range has the client',
    open,
    fromOutside('203.0.113.80', 80, '198.51.100.200'),
    'denied',
    '(198.51.100.0/25) do not contain 198.51.100.200',
  ],
  ['ranges do not concern external IPs', open, fromOutside('203.0.113.9', 80, '198.51.100.200'), 'allowed', 'rules allow it'],
  ['the node has no endpoint', open, fromOutside('192.0.2.1', 30_080, '198.51.100.7', 'n1'), 'denied', 'externalTrafficPolicy Local'],
  ['the node has an endpoint', open, fromOutside('192.0.2.2', 30_080), 'allowed', 'rules allow it'],
  ['the other node replaces the source', anywhere, fromOutside('192.0.2.1', 30_080, '198.51.100.7', 'n1'), 'denied', 'no rule allows it'],
  ['a pod gets every endpoint', open, asked('203.0.113.9', 80), 'denied', 'ingress: no rule allows it'],
  ['another port of the address', open, fromOutside('203.0.113.80', 81), 'denied', 'has no port 81/TCP'],
  ['the Service is not in the family', open, fromOutside('2001:db8::2', 30_080, '2001:db8:1::7'), 'allowed', 'no policy isolates an end'],
  [
    'the Service has the address, and not the family',
    sixth,
    fromOutside('2001:db8:eeee::9', 80, '2001:db8:1::7'),
    'allowed',
    'no policy isolates an end',
  ],
  ['another port of the node', open, fromOutside('192.0.2.2', 22), 'allowed', 'no policy isolates an end'],
])('from outside: %s', (_, cluster, packet, verdict, why) => {
  const meaning = meaningOf(cluster, packet);
  expect(meaning.verdict).toBe(verdict);
  expect(meaning.why).toContain(why);
});

it.each([
  ['2001:db8:eeee::9', 80, 'which has it as an external IP, and no IPv6 cluster address'],
  ['2001:db8::2', 30_080, 'which has node port 30080, and no IPv6 cluster address'],
  ['2001:db8::2', 30_081, undefined],
  ['2001:db8:dddd::9', 80, undefined],
])('an address %s port %i that no Service claims is named with the reason: %s', (destination, port, reason) => {
  const { unclaimed } = meaningOf(sixth, fromOutside(destination, port, '2001:db8:1::7'));
  expect(unclaimed).toEqual(reason && `no node serves ${destination} for Service shop/db, ${reason}`);
});
