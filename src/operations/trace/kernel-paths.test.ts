import { expect, it } from 'vitest';
import { exampleNode } from '../../../test/support/example-node.ts';
import { parseCidr, parseIp } from '../../base/net/ip.ts';
import { nodePortAddress, serviceNextHop } from '../../dataplane/pipeline/well-known.ts';
import { isSentByKernel, kernelPaths } from './kernel-paths.ts';

const via = parseIp('192.0.2.2');
const peers = [
  {
    name: 'n2',
    transport: [],
    podCidrs: [parseCidr('10.10.4.0/22'), parseCidr('fd00:10:4::/64')],
    direct: { ipv4: { hop: { via, dev: 'eth0' } } },
  },
  { name: 'n3', transport: [], podCidrs: [parseCidr('10.10.8.0/22')], direct: { ipv4: { hop: { dev: 'antrea-wg0' } } } },
  { name: 'n4', transport: [], podCidrs: [parseCidr('10.10.12.0/22')], direct: { ipv4: {} } },
  { name: 'n5', transport: [], podCidrs: [parseCidr('10.10.16.0/22')], direct: { ipv4: {} } },
  { name: 'n6', transport: [parseIp('192.168.77.6')], podCidrs: [parseCidr('10.10.20.0/22')] },
];
/** Peers as the agent has them: an object whose methods need it. */
class Peers {
  readonly #blocked = 'n5';
  intents() {
    return peers;
  }
  modesOf(name: string) {
    return [{ family: 'ipv4' as const, mode: name === this.#blocked ? ('blocked' as const) : ('direct' as const) }];
  }
}
const onward = kernelPaths(new Peers(), {
  node: 'n1',
  environment: exampleNode,
  translated: (ip, transport, port) => (transport === 'tcp' && port === 30_080 ? { ip: nodePortAddress[ip.family], port } : undefined),
});
const source = parseIp('10.10.0.5');

it.each([
  ['10.10.4.9', { node: 'n2', mode: 'direct', device: 'eth0' }],
  ['10.10.8.9', { node: 'n3', mode: 'wireguard', device: 'antrea-wg0' }],
  ['10.10.12.9', { node: 'n4', mode: 'direct' }],
  ['10.10.16.9', { node: 'n5', mode: 'blocked' }],
  ['10.10.20.9', undefined], // through the tunnel
  ['fd00:10:4::9', undefined], // direct in the other family only
  ['203.0.113.9', undefined],
])('the kernel sends packets for %s on as %j', (address, expected) => {
  expect(onward({ source, destination: parseIp(address) })).toEqual(expected);
});

it.each([
  ['192.168.77.1', 30_080, { node: 'n1', mode: 'service' }],
  ['192.168.77.1', 30_081, undefined], // no node port
  ['192.168.77.6', 30_080, { node: 'n6', mode: 'direct', source: '192.168.77.1' }],
  ['192.168.77.6', 22, undefined], // a process of the other node
  ['203.0.113.9', 30_080, undefined],
])('a packet of a pod for %s port %i reaches the Service on %j', (address, port, expected) => {
  expect(onward({ source, destination: parseIp(address), transport: 'tcp', port })).toEqual(expected);
});

it.each([
  ['10.10.0.1', 80, { node: 'n6', mode: 'direct', source: '192.168.77.1' }], // a process: the node's address replaces the gateway's
  ['10.10.0.1', 22, { node: 'n6', mode: 'direct', source: '192.168.77.1' }],
  ['203.0.113.1', 80, { node: 'n6', mode: 'direct' }],
])('a packet from %s that the bridge has not had reaches port %i of another node on %j', (from, port, expected) => {
  const packet = { source: parseIp(from), destination: parseIp('192.168.77.6'), transport: 'tcp' as const, port };
  expect(onward({ ...packet, isBeforeBridge: true })).toEqual(expected);
});

it('a packet that the bridge has sent to a process of the node is not translated again', () => {
  const packet = { destination: parseIp('192.168.77.1'), transport: 'tcp' as const, port: 30_080 };
  expect(onward({ ...packet, source: serviceNextHop.ipv4 })).toBeUndefined();
});

it.each([
  ['outside', 'node', 'route.none', '203.0.113.9', true],
  ['an unused pod address', 'node', 'route.none', '10.10.0.99', false],
  ['a Service that does not exist', 'node', 'route.none', '10.96.0.99', false],
  ['a pod that policy protects', 'node', 'policy.ingress', '203.0.113.9', false],
  ['outside, from a host outside', 'outside', 'route.none', '203.0.113.9', true],
  ['outside, from a pod', 'pod', 'route.none', '203.0.113.9', false],
] as const)('the kernel sends packets of the node, and of hosts outside, itself: %s', (_, kind, drop, address, expected) => {
  expect(isSentByKernel({ kind }, drop, parseIp(address), exampleNode)).toBe(expected);
});
