import { parseCidr, parseIp } from '../../src/base/net/ip.ts';
import { parseMac } from '../../src/base/net/mac.ts';
import type { PeerIntent } from '../../src/dataplane/compile/compile-peer.ts';
import type { PodIntent } from '../../src/dataplane/compile/compile-pod.ts';
import type { NodeEnvironment } from '../../src/dataplane/compile/environment.ts';
import { ofPorts } from '../../src/dataplane/pipeline/well-known.ts';
import type { Proxying } from '../../src/services/compile/intent.ts';
import { type SceneService, sceneService } from './scene-service.ts';

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
  {
    ofPort: 32785,
    mac: parseMac('0e:aa:00:00:00:06'),
    addresses: [parseIp('10.10.0.6'), parseIp('fd00:10::6')],
    egress: { rate: 1e9, burst: 1e8 },
    ingress: { rate: 2e9, burst: 2e8 },
  },
];

export const exampleServices: readonly SceneService[] = [
  sceneService({ name: 'web', protocol: 'TCP', clusterIp: '10.96.0.10', port: 80, endpoints: ['10.10.0.5 8080 n1', '10.10.4.9 8080 n2'] }),
  sceneService({
    name: 'dns',
    protocol: 'UDP',
    clusterIp: 'fd00:96::10',
    port: 53,
    endpoints: ['fd00:10::5 5353 n1', 'fd00:10:0:1::9 53 n2'],
  }),
  sceneService({ name: 'empty', protocol: 'TCP', clusterIp: '10.96.0.11', port: 80, endpoints: [] }),
  sceneService({
    name: 'shop',
    protocol: 'TCP',
    clusterIp: '10.96.0.20',
    port: 80,
    nodePort: 30_080,
    endpoints: ['10.10.0.5 8080 n1', '10.10.4.9 8080 n2', '10.10.8.9 8080 n3'],
    more: {
      type: 'LoadBalancer',
      loadBalancerIngress: [{ ip: '198.51.100.7', ipMode: 'VIP' }],
      loadBalancerSourceRanges: ['203.0.113.0/24', '10.10.0.0/16'],
    },
  }),
];

/** All features of kube-proxy. */
export const exampleProxying: Proxying = {
  node: {
    name: 'n1',
    zone: 'a',
    families: ['ipv4', 'ipv6'],
    sctp: false,
    addresses: exampleNode.transport,
    gateway: exampleNode.gateway.addresses,
  },
  config: {
    proxyAll: true,
    skipServices: new Set(),
    proxyLoadBalancerIps: true,
    serviceProxyName: '',
    externalIpRanges: [parseCidr('198.51.100.0/24'), parseCidr('2001:db8:100::/48')],
    bucketTranslation: true,
  },
};
