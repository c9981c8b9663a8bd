import { expect, it } from 'vitest';
import { exampleObjects } from '../../../test/support/example-bundle.ts';
import type { NodeTrace, TraceOutcome } from '../../api/trace.ts';
import { traceOverCluster } from './cluster-trace.ts';
import { usualSettings } from './node-compiler.ts';
import { SimulatedCluster } from './simulated-cluster.ts';

/** Trace of a node that passes a packet to an endpoint of a Service. */
function toService(): NodeTrace {
  const packet = { protocol: 'TCP', source: '10.10.0.5', sourcePort: 40_000, destination: '10.96.0.20', destinationPort: 80, ttl: 64 };
  const end: TraceOutcome = { what: 'pod', to: 'pod shop/n1-1', packet: { ...packet, destination: '10.10.0.6' } };
  const path = { endpoints: ['10.10.0.6:80'], hops: [], bridge: end, desired: end };
  const ends = { from: 'shop/n1-0', to: 'service:shop/db' };
  return { node: 'n1', traces: [{ family: 'ipv4', packet, ...ends, connection: 'new', paths: [path], moreEndpoints: 0, milliseconds: 0 }] };
}

it('objects without Services have no verdict about a packet that a Service translates', async () => {
  const onlyToPods = {
    metadata: { namespace: 'shop', name: 'only-to-pods' },
    spec: { podSelector: {}, policyTypes: ['Egress'], egress: [{ to: [{ podSelector: {} }] }] },
  };
  const cluster = new SimulatedCluster({ ...exampleObjects(), networkPolicies: [onlyToPods] }, usualSettings([]));
  const recorded = new Map([['n1', { trace: () => Promise.resolve(toService()), refusesTunnelOf: () => false }]]);
  const verdicts = async (hasServices: boolean) =>
    (await traceOverCluster(cluster, { from: 'shop/n1-0', to: 'service:shop/db' }, { recorded, hasServices })).meanings.flat();
  // The address of the Service alone is one outside the cluster, which the policy denies.
  expect(await verdicts(true)).toMatchObject([{ verdict: 'denied' }]);
  expect(await verdicts(false)).toEqual([undefined]);
});

it('a node that encrypts does not judge packets that a compiled node sends through the tunnel', async () => {
  const cluster = new SimulatedCluster(exampleObjects(), usualSettings([]));
  const recorded = new Map([
    ['n2', { trace: () => Promise.reject(new Error('not asked')), refusesTunnelOf: (peer: string) => peer === 'n1' }],
  ]);
  const { traces } = await traceOverCluster(cluster, { from: 'shop/n1-0', to: 'shop/n2-0', family: 'ipv4' }, { recorded });
  expect(traces[0]?.paths).toMatchObject([
    {
      verdict: 'unknown',
      missing: { node: 'n2', reason: 'packets of n1 reach it without a tunnel, and there is no bundle of n1: add its bundle' },
    },
  ]);
});

it('a packet for an address of another node is followed there', async () => {
  const services = [
    {
      metadata: { namespace: 'shop', name: 'db' },
      spec: { type: 'LoadBalancer', clusterIPs: ['10.96.0.20'], externalTrafficPolicy: 'Local', ports: [{ protocol: 'TCP', port: 80 }] },
      status: { loadBalancer: { ingress: [{ ip: '192.168.77.2' }] } },
    },
  ];
  const slice = {
    metadata: { namespace: 'shop', labels: { 'kubernetes.io/service-name': 'db' } },
    addressType: 'IPv4',
    ports: [{ protocol: 'TCP', port: 8_080 }],
    endpoints: [{ addresses: ['10.10.4.9'], nodeName: 'n2', conditions: { ready: true } }],
  };
  const cluster = new SimulatedCluster({ ...exampleObjects(), services, slices: [slice] });
  const asked = { from: 'node:n1', to: '192.168.77.2', port: '80', family: 'ipv4' };
  const { traces, meanings } = await traceOverCluster(cluster, asked);
  expect(traces[0]?.paths[0]?.segments.map(({ node }) => node)).toEqual(['n1', 'n2']);
  expect(traces[0]?.paths[0]?.endpoints).toEqual(['10.10.4.9:8080']);
  expect(meanings[0]?.[0]?.verdict).toBe(traces[0]?.paths[0]?.bridge);
});
