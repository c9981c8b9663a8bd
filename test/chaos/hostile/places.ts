import type { ApiObject } from '../api.ts';
import type { LabPod } from '../lab.ts';
import { listOf } from './sizes.ts';

/** An address that does not belong to the attackers. */
export interface ForeignAddress {
  readonly whose: string;
  readonly address: string;
}

/** Known addresses of a lab. */
export interface Places {
  readonly nodes: readonly { readonly name: string; readonly ip: readonly string[] }[];
  /** Pods of the victim. */
  readonly pods: readonly LabPod[];
  readonly services: readonly ApiObject[];
  readonly nodeObjects: readonly ApiObject[];
  readonly loadBalancer: readonly string[];
  readonly apiServer: string;
}

/** Special addresses that no node has, each of another kind. */
const everywhere: readonly ForeignAddress[] = [
  { whose: 'the API server’s Service', address: '10.96.0.1' },
  { whose: 'the cluster’s DNS', address: '10.96.0.10' },
  { whose: 'unused, of the Services’ network', address: '10.111.255.254' },
  { whose: 'unused, of the Services’ network', address: 'fd00:10:96::fffe' },
  { whose: 'a host outside', address: '203.0.113.10' },
  { whose: 'a host outside', address: '2001:db8:113::10' },
  { whose: 'no host outside', address: '203.0.113.99' },
  { whose: 'the metadata service', address: '169.254.169.254' },
  { whose: 'link-local', address: '169.254.77.1' },
  { whose: 'link-local', address: 'fe80::1' },
  { whose: 'Seine’s own', address: '169.254.0.253' },
  { whose: 'Seine’s own', address: '169.254.0.252' },
  { whose: 'Seine’s own', address: '169.254.0.251' },
  { whose: 'loopback', address: '127.0.0.1' },
  { whose: 'loopback', address: '127.0.0.53' },
  { whose: 'loopback', address: '::1' },
  { whose: 'multicast', address: '224.0.0.1' },
  { whose: 'multicast', address: 'ff02::1' },
  { whose: 'broadcast', address: '255.255.255.255' },
  { whose: 'class E', address: '240.0.0.1' },
  { whose: 'NAT64', address: '64:ff9b::cb00:710a' },
];

/** Special addresses that an API server rejects in Services and EndpointSlices (ValidateNonSpecialIP), and accepts in pods and Nodes. */
const special = /^(?:0\.|127\.|169\.254\.|22[4-9]\.|23\d\.|::1?$|fe80:|ff)/;

export function isSpecial(address: string): boolean {
  return special.test(address);
}

/** All of them, in an order that does not depend on allocation. */
export function foreignAddresses(places: Places): readonly ForeignAddress[] {
  const ofNodes = places.nodes.flatMap(({ name, ip }) => ip.map((address) => ({ whose: name, address })));
  const gateways = places.nodeObjects.flatMap(({ metadata, spec }) =>
    ((spec?.['podCIDRs'] ?? []) as readonly string[]).map((cidr) => ({ whose: gatewayOf(metadata.name), address: firstOf(cidr) })),
  );
  const ofPods = places.pods.flatMap(({ namespace, name, ips }) => ips.map((address) => ({ whose: `${namespace}/${name}`, address })));
  const ofServices = places.services.flatMap(({ metadata, spec }) =>
    ((spec?.['clusterIPs'] ?? []) as readonly string[]).map((address) => ({ whose: `the Service ${metadata.name}`, address })),
  );
  const balanced = places.loadBalancer.map((address) => ({ whose: 'a load balancer', address }));
  return [
    ...ofNodes,
    ...gateways,
    ...ofPods,
    ...ofServices,
    ...balanced,
    { whose: 'the API server', address: places.apiServer },
    ...everywhere,
  ];
}

/** Name of the owner of a node's gateway address. */
export const gatewayOf = (node: string): string => `the gateway of ${node}`;

/** Gateway of a pod network. */
function firstOf(cidr: string): string {
  const [network = ''] = cidr.split('/');
  return network.includes(':') ? `${network.replace(/::$/, '')}::1` : network.replace(/\.0$/, '.1');
}

/** Ports of the node's own programs. */
export const nodePorts = [22, 53, 443, 2379, 6443, 10_248, 10_249, 10_250, 10_256, 10_349, 10_350] as const;

/** Unused addresses of a range for documentation and benchmarks, all distinct. */
export function unusedAddresses(count: number, family: 'ipv4' | 'ipv6', from: number): string[] {
  return listOf(count, (index) => {
    const number = (from * 7_919 + index) % 131_072;
    return family === 'ipv4'
      ? `198.${51 + (number >> 16)}.${(number >> 8) & 255}.${number & 255}`
      : `2001:db8:51:${(number >> 16).toString(16)}::${(number & 65_535).toString(16)}`;
  });
}
