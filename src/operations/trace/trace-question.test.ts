import { expect, it } from 'vitest';
import { exampleNode } from '../../../test/support/example-node.ts';
import { parseIp } from '../../base/net/ip.ts';
import { parseMac } from '../../base/net/mac.ts';
import type { Lease } from '../../pods/ipam/lease.ts';
import { type TraceNames, traceQuestion } from './trace-question.ts';

const lease: Lease = {
  network: 'seine',
  containerId: 'a'.repeat(64),
  ifName: 'eth0',
  serial: 1,
  state: 'allocated',
  addresses: [{ ip: parseIp('10.10.0.5'), prefixLength: 22, gateway: parseIp('10.10.0.1') }],
  mac: parseMac('0e:aa:00:00:00:05'),
  netns: '/run/netns/a',
  pod: { namespace: 'shop', name: 'web-0', uid: 'u' },
};

const http = { name: '', protocol: 'TCP', port: 80, targetPort: 80 } as const;
const service = { clusterIps: ['10.96.0.9'], ports: [http] };
const twoPorts = { clusterIps: ['10.96.0.9'], ports: [http, { ...http, name: 'dns', protocol: 'UDP', port: 53 } as const] };

const names: TraceNames = {
  node: 'n1',
  leases: [lease],
  environment: exampleNode,
  portOf: () => 32_784,
  podElsewhere: (name) =>
    name === 'shop/far' ? { namespace: 'shop', name: 'far', nodeName: 'n2', podIps: ['10.10.4.9'], labels: {}, ports: {} } : undefined,
  service: (name) => ({ 'shop/db': service, 'shop/two': twoPorts })[name],
  peer: (name) =>
    name === 'n2' ? { name, podCidrs: ['10.10.4.0/22'], transport: { ipv4: '192.168.77.2' }, addresses: ['192.168.77.2'] } : undefined,
};

const asked = (query: Readonly<Record<string, string>>) => traceQuestion(new URLSearchParams(query), names);

it.each([
  [{ from: 'shop/web-9', to: '10.0.0.1' }, 'from: "shop/web-9" is no pod that this node knows'],
  [{ from: 'shop/far', to: '10.0.0.1' }, 'from: "shop/far" is on n2, and this is n1'],
  [{ from: 'node:n2', to: '10.0.0.1' }, 'from: "node:n2" is on n2, and this is n1'],
  [{ from: 'outside:x', to: '10.0.0.1' }, 'from: "outside:x" is not outside:ADDRESS'],
  [{ from: 'tunnel:n9/10.10.4.9', to: '10.10.0.5' }, 'from: "tunnel:n9/10.10.4.9" names no other node'],
  [{ from: 'direct:n9/10.10.4.9', to: '10.10.0.5' }, 'from: "direct:n9/10.10.4.9" names no other node'],
  [{ from: 'direct:n2/x', to: '10.10.0.5' }, 'from: "direct:n2/x" is not of the form direct:NODE/ADDRESS'],
  [{ from: 'tunnel:n2/x', to: '10.10.0.5' }, 'from: "tunnel:n2/x" is not of the form tunnel:NODE/ADDRESS'],
  [{ from: '', to: '10.10.0.5' }, 'from: "" names no end of a connection'],
  [{ from: 'shop/web-0', to: 'shop/db-9' }, 'to: "shop/db-9" is no pod with an address'],
  [{ from: 'shop/web-0', to: 'service:shop/x' }, 'to: "service:shop/x" is no Service that this node knows'],
  [{ from: 'shop/web-0', to: 'node:n9' }, 'to: "node:n9" is no node that this node knows'],
  [{ from: 'shop/web-0', to: 'service:shop/two' }, 'port: "" is needed: service:shop/two has the ports 80/TCP, 53/UDP'],
  [{ from: 'shop/web-0', to: '10.0.0.1', port: '80/XTP' }, 'port: "80/XTP" is not of the form'],
  [{ from: 'shop/web-0', to: '10.0.0.1', port: '0' }, 'port: "0" is not a number from 1 to 65535'],
  [{ from: 'shop/web-0', to: '10.0.0.1', 'source-port': '99999' }, 'source-port: "99999" is not a number from 1 to 65535'],
  [{ from: 'shop/web-0', to: '10.0.0.1', family: 'ipv9' }, 'family: "ipv9" is neither ipv4 nor ipv6'],
  [{ from: 'shop/web-0', to: 'fd00::1' }, 'shop/web-0 and fd00::1 have no address of one family'],
])('an error for %j names the field and the value', (query, message) => {
  expect(() => asked(query)).toThrow(message);
});

it('the port of a Service with one port need not be given', () => {
  expect(asked({ from: 'shop/web-0', to: 'service:shop/db' })).toMatchObject({ protocol: 'tcp', port: 80, families: ['ipv4'] });
});

it('without a port an echo is traced', () => {
  expect(asked({ from: 'shop/web-0', to: 'outside' })).toMatchObject({ protocol: 'icmp', families: ['ipv4'], isEstablished: false });
});

it('an address is its pod, this node, or a host outside', () => {
  expect(asked({ from: '10.10.0.5', to: '10.0.0.1' }).from).toMatchObject({ kind: 'pod', name: 'shop/web-0' });
  expect(asked({ from: '10.10.0.1', to: '10.10.0.5' }).from).toMatchObject({ kind: 'node', name: 'node:n1' });
  expect(asked({ from: '198.51.100.7', to: '10.10.0.5' }).from).toMatchObject({ kind: 'outside', name: 'outside:198.51.100.7' });
});
