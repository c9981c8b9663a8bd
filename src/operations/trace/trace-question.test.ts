import { expect, it } from 'vitest';
import { exampleNode } from '../../../test/support/example-node.ts';
import { parseIp } from '../../base/net/ip.ts';
import { parseMac } from '../../base/net/mac.ts';
import { nodePortAddress } from '../../dataplane/pipeline/well-known.ts';
import type { Lease } from '../../pods/ipam/lease.ts';
import type { ReachedService } from './external-targets.ts';
import { endsOf } from './trace-ends.ts';
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

const open: ReachedService = {
  ...{ type: 'LoadBalancer', clusterIps: ['10.96.0.10'], ports: [{ ...http, nodePort: 30_080 }], externalIps: ['198.51.100.9'] },
  loadBalancerIngress: [
    { ip: '203.0.113.80', ipMode: 'VIP' },
    { ip: '203.0.113.81', ipMode: 'Proxy' },
  ],
};
const ipv4Only: ReachedService = { type: 'NodePort', clusterIps: ['10.96.0.12'], ports: [{ ...http, nodePort: 30_081 }] };
const closed: ReachedService = { type: 'NodePort', clusterIps: ['10.96.0.13'], ports: [{ ...http, nodePort: 30_082 }] };
const pending: ReachedService = { type: 'LoadBalancer', clusterIps: ['10.96.0.11'], ports: [http] };

const nodePorts = { 'shop/ipv4-only': ipv4Only, 'shop/closed': closed };

const names: TraceNames = {
  node: 'n1',
  leases: [lease],
  environment: exampleNode,
  portOf: () => 32_784,
  podElsewhere: (name) =>
    name === 'shop/far' ? { namespace: 'shop', name: 'far', nodeName: 'n2', podIps: ['10.10.4.9'], labels: {}, ports: {} } : undefined,
  service: (name) => ({ 'shop/db': service, 'shop/two': twoPorts, 'shop/public': open, 'shop/pending': pending, ...nodePorts })[name],
  translated: (ip, transport, port) => {
    const isOpen = port === 30_080 || (port === 30_081 && ip.family === 'ipv4');
    return transport === 'tcp' && isOpen ? { ip: nodePortAddress[ip.family], port } : undefined;
  },
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
  [
    { from: 'outside', to: 'service:shop/db' },
    'to: "service:shop/db" has no load balancer address, external IP or node port: no client outside the cluster reaches it; for a network that routes cluster addresses to a node, trace to 10.96.0.9 80',
  ],
  [
    { from: 'outside', to: 'service:shop/closed' },
    'to: "service:shop/closed" has node port 30082, which is open at no address of this node: see proxy.nodePortAddresses',
  ],
  [{ from: 'outside', to: 'service:shop/pending' }, 'has no load balancer address yet, external IP or node port'],
  [
    { from: 'outside', to: 'service:shop/public', port: '81' },
    'port: "81/TCP" is no port of service:shop/public, which has 80/TCP (node port 30080)',
  ],
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

it.each([
  [
    'outside',
    '80',
    ['203.0.113.80 80 load balancer address', '198.51.100.9 80 external IP', '192.168.77.1 30080 node port', 'fd00:77::1 30080 node port'],
  ],
  [
    'outside:198.51.100.7',
    undefined,
    ['203.0.113.80 80 load balancer address', '198.51.100.9 80 external IP', '192.168.77.1 30080 node port'],
  ],
  ['203.0.113.1', '30080', ['192.168.77.1 30080 node port']],
  ['outside:203.0.113.1', 'icmp', ['203.0.113.80 undefined load balancer address', '198.51.100.9 undefined external IP']],
  ['shop/web-0', '80', ['10.96.0.10 80 undefined']],
])('a packet from %s to port %s of a Service has the destinations %j', (from, port, expected) => {
  const question = asked({ from, to: 'service:shop/public', ...(port !== undefined && { port }) });
  const ends = question.families.flatMap((family) => endsOf(question, family));
  expect(ends.map(({ destination, port: own, way }) => `${destination.text} ${own} ${way}`)).toEqual(expected);
});

it('a node port in a family of which the node has no address is refused with that reason', () => {
  const own = exampleNode.transport.filter(({ family }) => family === 'ipv4');
  const ipv6Only: ReachedService = { ...ipv4Only, clusterIps: ['fd00:96::12'] };
  const here = { ...names, environment: { ...exampleNode, transport: own }, service: () => ipv6Only, translated: () => undefined };
  expect(() => traceQuestion(new URLSearchParams({ from: 'outside', to: 'service:shop/six' }), here)).toThrow(
    'has node port 30081, and cluster addresses of IPv6 alone: this node has no address of that family',
  );
});

it('a node port is traced in the families in which it is open', () => {
  expect(asked({ from: 'outside', to: 'service:shop/ipv4-only' })).toMatchObject({
    families: ['ipv4'],
    to: { targets: [{ port: 30_081 }] },
  });
});
