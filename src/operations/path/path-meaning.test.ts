import { expect, it } from 'vitest';
import { meaningFor } from './path-meaning.ts';
import type { TraceVerdict, WholePath, WholeTrace } from './whole-trace.ts';

const objects = {
  pods: [],
  namespaces: [],
  policies: [],
  nodes: [],
  services: [{ metadata: { namespace: 'shop', name: 'db' }, spec: { clusterIPs: ['10.96.0.20'], ports: [{ port: 80 }] } }],
  slices: [],
};

function meaningOfPort(destinationPort: number, desired: TraceVerdict) {
  const packet = { source: '10.10.0.5', destination: '10.96.0.20', protocol: 'TCP', sourcePort: 1_024, destinationPort };
  const path = { verdict: desired, endpoints: [], segments: [], desired, bridge: desired } as WholePath;
  const trace = { to: '10.96.0.20', node: 'node-1', connection: 'new', packet, paths: [path], moreEndpoints: 0 } as unknown as WholeTrace;
  return meaningFor(objects as unknown as Parameters<typeof meaningFor>[0], trace, path);
}

it('a port that a Service does not have is denied where nodes know the range of Services', () => {
  expect(meaningOfPort(81, 'denied')).toEqual({ verdict: 'denied', why: 'Service shop/db has no port 81/TCP' });
});

it('objects do not decide about such a port where nodes send it out, because they do not know the range', () => {
  expect(meaningOfPort(81, 'allowed')).toBeUndefined();
});

it('a Service without an endpoint is denied whatever the flows should do', () => {
  expect(meaningOfPort(80, 'allowed')).toMatchObject({ verdict: 'denied' });
});

const policed = {
  ...objects,
  namespaces: [{ metadata: { name: 'shop' } }],
  nodes: [{ metadata: { name: 'node-1' }, spec: { podCIDRs: ['10.10.0.0/24'] }, status: { addresses: [] } }],
  networkPolicies: [
    {
      metadata: { namespace: 'shop', name: 'to-one' },
      spec: { podSelector: {}, policyTypes: ['Egress'], egress: [{ to: [{ ipBlock: { cidr: '203.0.113.1/32' } }] }] },
    },
  ],
  pods: [{ metadata: { namespace: 'shop', name: 'web' }, spec: { nodeName: 'node-1' }, status: { podIPs: [{ ip: '10.10.0.5' }] } }],
  slices: [
    {
      metadata: { namespace: 'shop', labels: { 'kubernetes.io/service-name': 'db' } },
      addressType: 'IPv4',
      ports: [{ port: 80 }],
      endpoints: ['203.0.113.1', '203.0.113.2', '203.0.113.3'].map((address) => ({ addresses: [address] })),
    },
  ],
};

function meaningOfEndpoints(endpoints: readonly string[], bridge: TraceVerdict) {
  const packet = { source: '10.10.0.5', destination: '10.96.0.20', protocol: 'TCP', sourcePort: 1_024, destinationPort: 80 };
  const path = { verdict: bridge, endpoints, segments: [], desired: bridge, bridge } as WholePath;
  const trace = {
    to: 'service:shop/db',
    node: 'node-1',
    connection: 'new',
    packet,
    paths: [path],
    moreEndpoints: 0,
  } as unknown as WholeTrace;
  return meaningFor(policed as unknown as Parameters<typeof meaningFor>[0], trace, path);
}

it('each endpoint of a path is judged, and one that differs from the flows decides', () => {
  const meaning = meaningOfEndpoints(['203.0.113.1:80', '203.0.113.2:80', '203.0.113.3:80'], 'allowed');
  expect(meaning?.verdict).toBe('denied');
  expect(meaning?.why).toBe(
    '203.0.113.2:80, 203.0.113.3:80 denied: egress: no rule allows it: shop/to-one; 203.0.113.1:80 allowed: rules allow it: shop/to-one spec.egress[0]',
  );
});

it('endpoints that objects give the client, and no flow, are named', () => {
  const meaning = meaningOfEndpoints(['203.0.113.1:80', '203.0.113.2:80'], 'allowed');
  expect(meaning?.unchosen).toEqual(['203.0.113.3:80']);
  expect(meaning?.choice).toBe('a pod on node-1 gets 3 of 3 at a cluster address');
});

it('objects do not decide about a packet that the kernel drops, because it would not be encrypted', () => {
  const onward = { node: 'node-2', mode: 'blocked' };
  const path = { endpoints: [], segments: [{ bridge: { onward } }], desired: 'denied', bridge: 'denied' } as unknown as WholePath;
  expect(
    meaningFor({} as Parameters<typeof meaningFor>[0], { connection: 'new', paths: [path] } as unknown as WholeTrace, path),
  ).toBeUndefined();
});
