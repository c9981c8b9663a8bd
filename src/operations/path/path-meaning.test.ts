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
  const trace = { node: 'node-1', connection: 'new', packet } as unknown as WholeTrace;
  const path = { verdict: desired, endpoints: [], segments: [], desired, bridge: desired } as WholePath;
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
