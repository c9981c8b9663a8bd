import { expect, it } from 'vitest';
import { type ForwardedObjects, type ForwardedPacket, meaningOf } from './forwarding-reference.ts';

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
