import { describe, expect, it } from 'vitest';
import { parseConfig } from '../../agent/config/agent-config.ts';
import { parseIp } from '../../base/net/ip.ts';
import type { Node } from '../../kubernetes/resources/node.ts';
import { carrierOf, resolveEnvironment } from './node-environment.ts';

const node: Node = {
  name: 'n1',
  uid: 'u',
  podCidrs: ['10.10.0.0/22', 'fd00:10::/64'],
  internalIps: ['192.168.77.1', 'fd00:77::1'],
  deleting: false,
};
const interfaces = [
  { name: 'mgmt', mtu: 1500, addresses: [parseIp('10.0.0.5')] },
  { name: 'eth0', mtu: 9000, addresses: [parseIp('192.168.77.1'), parseIp('192.168.77.9'), parseIp('fd00:77::1')] },
];
const resolve = (yaml: string, change: Partial<Node> = {}) =>
  resolveEnvironment(parseConfig(yaml, { NODE_NAME: 'n1' }), { ...node, ...change }, interfaces);

it('finds the tunnel interface by its endpoints, whichever program created it', () => {
  expect(carrierOf(resolve('').transport, interfaces)).toBe('eth0');
  expect(carrierOf(resolve('transportInterface: mgmt').transport, interfaces)).toBe('mgmt');
  expect(carrierOf(resolve('').transport, [])).toBeUndefined();
});

describe('resolveEnvironment', () => {
  it('finds the transport interface by the node’s address and reserves room for the tunnel', () => {
    const { gateway, transport, tunnel } = resolve('');
    expect(gateway.mtu).toBe(8930);
    expect(gateway.addresses.map(({ text }) => text)).toEqual(['10.10.0.1', 'fd00:10::1']);
    expect(transport.map(({ text }) => text)).toEqual(['192.168.77.1', 'fd00:77::1']);
    expect(tunnel).toEqual({ ofPort: 32768, type: 'geneve', port: 6081 });
  });
  it.each([
    ['tunnelType: gre', 8958],
    ['tunnelType: vxlan', 8930],
    ['{tunnelType: gre, ovsDatapathType: netdev}', 8938],
    ['defaultMTU: 1400', 1400],
    ['transportInterface: mgmt', 1450],
    ['transportInterfaceCIDRs: [10.0.0.0/8]', 1450],
  ])('with %s the MTU is %i', (yaml, mtu) => expect(resolve(yaml).gateway.mtu).toBe(mtu));
  it.each([
    ['IPv6 alone', ['fd00:77::1'], ['fd00:77::1'], 1430],
    ['IPv4 alone', ['192.168.77.1'], ['192.168.77.1'], 1450],
    ['both: a peer may have IPv6 alone', ['192.168.77.1', 'fd00:77::1'], ['192.168.77.1', 'fd00:77::1'], 1430],
    ['IPv4 to its peers’ knowledge', ['192.168.77.1', 'fd00:77::abc'], ['192.168.77.1'], 1450],
    ['IPv6 where peers know another interface', ['fd00:77::1'], ['192.168.77.1'], 1430],
    ['no setting yet', ['192.168.77.1', 'fd00:77::1'], [], 1430],
  ])('reserves 20 bytes more if tunnels may go over IPv6: %s', (_, addresses, internalIps, mtu) => {
    const eth0 = { name: 'eth0', mtu: 1500, addresses: addresses.map(parseIp) };
    const config = parseConfig('transportInterface: eth0', { NODE_NAME: 'n1' });
    expect(resolveEnvironment(config, { ...node, internalIps }, [eth0]).gateway.mtu).toBe(mtu);
  });
  it('ends tunnels at no address of a family that peers do not know', () => {
    const ends = (internalIps: readonly string[]) => resolve('', { internalIps }).transport.map(({ text }) => text);
    expect(ends(['192.168.77.9'])).toEqual(['192.168.77.9']);
    expect(ends(['fd00:77::1'])).toEqual(['fd00:77::1']);
    expect(ends(['fd00:77::1', '192.168.77.1'])).toEqual(['192.168.77.1', 'fd00:77::1']);
  });
  it('reserves IPv4’s room if tunnels are configured for IPv4', () =>
    expect(resolve('transportInterfaceCIDRs: [192.168.77.0/24]').gateway.mtu).toBe(8950));
  it.each([
    ['tunnelType: gre', ['192.168.77.1']],
    ['{tunnelType: gre, ovsDatapathType: netdev}', ['192.168.77.1', 'fd00:77::1']],
    ['tunnelType: vxlan', ['192.168.77.1', 'fd00:77::1']],
  ])('with %s tunnels end at %j: the kernel carries GRE of one family', (yaml, ends) =>
    expect(resolve(yaml).transport.map(({ text }) => text)).toEqual(ends),
  );
  it.each([
    ['', { podCidrs: [] }, /node n1 has no spec.podCIDRs yet/],
    ['transportInterface: eth9', {}, /no transport interface eth9/],
    ['', { internalIps: ['1.2.3.4'] }, /no transport interface with address 1.2.3.4/],
    ['', { internalIps: [] }, /with address \(the node has none\)/],
  ])('waits for addresses that may still appear: %j %j', (yaml, change, message) => expect(() => resolve(yaml, change)).toThrow(message));
  it('gives the gateway a constant MAC', () => expect(resolve('').gateway.mac).toBe(resolve('defaultMTU: 1400').gateway.mac));
  it.each([
    ['0.0.0.0/0', 'overlaps 0.0.0.0/8'],
    ['10.10.0.1/32', 'no room for a gateway'],
    ['192.168.77.0/25', 'contains 192.168.77.1, the address of eth0'],
    ['10.0.0.0/24', 'contains 10.0.0.5, the address of mgmt'],
    ['10.96.1.0/24', 'overlaps 10.96.0.0/16, the addresses of Services'],
    ['fe80::/64', 'overlaps fe80::/10'],
  ])('does not start to serve pods of %s', (cidr, why) =>
    expect(() => resolve('serviceCIDR: 10.96.0.0/16', { podCidrs: [cidr] })).toThrow(why),
  );
});
