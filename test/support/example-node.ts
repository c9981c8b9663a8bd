import type { PeerIntent } from '../../src/connectivity/compile-peer.ts';
import type { PodIntent } from '../../src/connectivity/compile-pod.ts';
import type { NodeEnvironment } from '../../src/connectivity/environment.ts';
import { parseCidr, parseIp } from '../../src/net/ip.ts';
import { parseMac } from '../../src/net/mac.ts';
import { ofPorts } from '../../src/pipeline/well-known.ts';
import type { ServicePort } from '../../src/proxy/compile-service.ts';

export const exampleNode: NodeEnvironment = {
  gateway: {
    name: 'antrea-gw0',
    ofPort: ofPorts.gateway,
    mac: parseMac('0e:00:00:00:01:01'),
    mtu: 1450,
    addresses: [parseIp('10.10.0.1'), parseIp('fd00:10::1')],
  },
  tunnel: { ofPort: ofPorts.tunnel, type: 'geneve', port: 6081 },
  podCidrs: [parseCidr('10.10.0.0/22'), parseCidr('fd00:10::/64')],
  transport: [parseIp('192.168.77.1'), parseIp('fd00:77::1')],
  serviceCidrs: [parseCidr('10.96.0.0/16'), parseCidr('fd00:96::/112')],
};

export const examplePeers: readonly PeerIntent[] = [
  {
    name: 'n2',
    podCidrs: [parseCidr('10.10.4.0/22'), parseCidr('fd00:10:0:1::/64')],
    transport: [parseIp('192.168.77.2'), parseIp('fd00:77::2')],
  },
  { name: 'n3', podCidrs: [parseCidr('10.10.8.0/22'), parseCidr('fd00:10:0:2::/64')], transport: [parseIp('fd00:77::3')] },
];

export const examplePods: readonly PodIntent[] = [
  { ofPort: 32784, mac: parseMac('0e:aa:00:00:00:05'), addresses: [parseIp('10.10.0.5'), parseIp('fd00:10::5')] },
  { ofPort: 32785, mac: parseMac('0e:aa:00:00:00:06'), addresses: [parseIp('10.10.0.6'), parseIp('fd00:10::6')] },
];

export const exampleServices: readonly ServicePort[] = [
  {
    transport: 'tcp',
    clusterIp: parseIp('10.96.0.10'),
    port: 80,
    groupId: 1,
    endpoints: [
      { ip: parseIp('10.10.0.5'), port: 8080 },
      { ip: parseIp('10.10.4.9'), port: 8080 },
    ],
  },
  {
    transport: 'udp',
    clusterIp: parseIp('fd00:96::10'),
    port: 53,
    groupId: 2,
    endpoints: [
      { ip: parseIp('fd00:10::5'), port: 5353 },
      { ip: parseIp('fd00:10:0:1::9'), port: 53 },
    ],
  },
  { transport: 'tcp', clusterIp: parseIp('10.96.0.11'), port: 80, groupId: 3, endpoints: [] },
];
