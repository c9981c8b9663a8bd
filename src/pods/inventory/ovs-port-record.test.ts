import { expect, it } from 'vitest';
import { cidrAddress, parseCidr, parseIp } from '../../base/net/ip.ts';
import { parseMac } from '../../base/net/mac.ts';
import type { Link } from '../../netlink/links.ts';
import { leaseFromPort, portOfPod } from './ovs-port-record.ts';

const pools = ['10.1.0.0/22', 'fd00::/64'].map(parseCidr).map((cidr) => ({ cidr, gateway: cidrAddress(cidr, 1n) }));
const pod = {
  network: 'seine',
  containerId: 'c1',
  ifName: 'eth0',
  netns: '/run/netns/c1',
  mac: parseMac('02:00:00:00:00:05'),
  pod: { namespace: 'default', name: 'web-0', uid: '' },
  addresses: pools.map(({ cidr, gateway }) => ({ ip: cidrAddress(cidr, 5n), prefixLength: cidr.prefixLength, gateway })),
};
const link = { name: 'web0-1234567', mac: parseMac('0e:00:00:00:00:01'), mtu: 1450 } as Link;
const idsOf = (change: object = {}) => new Map(Object.entries({ ...portOfPod(pod, link.name, 32_784).externalIds, ...change }));

it("reads a pod's attachment from its port", () => {
  expect(leaseFromPort(idsOf(), link, pools)).toEqual({ ...pod, attached: { hostIfName: link.name, hostMac: link.mac, mtu: 1450 } });
});

it('reads its permitted addresses', () => {
  const egress = { rate: 8_000_000, burst: 1_000_000 };
  const ids = { ...portOfPod({ ...pod, egress }, link.name, 32_784).externalIds };
  expect(leaseFromPort(new Map(Object.entries(ids)), link, pools)).toMatchObject({ egress });
  const both = { egress, ingress: { rate: 5_000, burst: 6_000 }, limits: 'both' as const };
  const idsOfBoth = { ...portOfPod({ ...pod, ...both }, link.name, 32_784).externalIds };
  expect(leaseFromPort(new Map(Object.entries(idsOfBoth)), link, pools)).toMatchObject(both);
  expect(leaseFromPort(idsOf({ 'egress-rate': 'much', 'egress-burst': '5' }), link, pools)).not.toHaveProperty('egress');
});

it('reads its host ports', () => {
  const hostPorts = [
    { transport: 'tcp' as const, hostPort: 8_080, containerPort: 80 },
    { transport: 'udp' as const, hostPort: 53, containerPort: 5_353, hostIp: parseIp('2001:db8::1') },
  ];
  const ids = { ...portOfPod({ ...pod, hostPorts }, link.name, 32_784).externalIds };
  expect(ids['host-ports']).toBe('tcp 8080 80,udp 53 5353 2001:db8::1');
  expect(leaseFromPort(new Map(Object.entries(ids)), link, pools)).toMatchObject({ hostPorts });
  for (const text of ['', 'icmp 1 1', 'tcp 0 80', 'tcp 80', 'tcp 80 80 here', 'tcp 80 70000'])
    expect(leaseFromPort(idsOf({ 'host-ports': text }), link, pools)).not.toHaveProperty('hostPorts');
});

it.each([
  ['is no pod’s', new Map([['seine-owner', 'agent']])],
  ['has an address without an owner', idsOf({ ip: '192.0.2.1' })],
  ['has only one address that is ours', idsOf({ ip: `${parseIp('10.1.0.5').text},2001:db8::1` })],
])('is undefined for a port that %s', (_, ids) => {
  expect(leaseFromPort(ids, link, pools)).toBeUndefined();
});
