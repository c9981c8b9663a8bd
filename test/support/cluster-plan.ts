import { cidrAddress, type Family, type Ip, parseCidr, parseIp } from '../../src/base/net/ip.ts';
import { type Mac, parseMac } from '../../src/base/net/mac.ts';
import type { PeerIntent } from '../../src/dataplane/compile/compile-peer.ts';
import type { PodIntent } from '../../src/dataplane/compile/compile-pod.ts';
import type { NodeEnvironment } from '../../src/dataplane/compile/environment.ts';
import { ofPorts, podOfPorts } from '../../src/dataplane/pipeline/well-known.ts';
import type { Proxying } from '../../src/services/compile/intent.ts';
import type { Scene } from '../model/scene.ts';
import { exampleProxying } from './example-node.ts';
import { type SceneService, sceneService } from './scene-service.ts';

export const families: readonly Family[] = ['ipv4', 'ipv6'];

export interface PlannedPod {
  /** Name, also of its network namespace after the cluster's prefix. */
  readonly name: string;
  readonly intent: PodIntent;
  readonly hostName: string;
}

export interface PlannedNode {
  readonly name: string;
  readonly environment: NodeEnvironment;
  readonly pods: readonly PlannedPod[];
}

export const mtu = 1450;

/** Addresses that NodeLocal DNSCache binds on each node: its own, and that of the Service, which is left to it. */
export const dnsCache: Readonly<Record<Family, readonly Ip[]>> = {
  ipv4: [parseIp('169.254.20.10'), parseIp('10.96.0.200')],
  ipv6: [parseIp('fd00:5353::10'), parseIp('fd00:96::c8')],
};

/** Two nodes; the first has two pods, the second one. */
export const nodes: readonly PlannedNode[] = [node(1, ['a', 'b']), node(2, ['c'])];
export const pods: readonly PlannedPod[] = nodes.flatMap((each) => each.pods);
/** Neither node nor pod: on the link between the nodes, and behind a router there. */
export const outside = {
  router: { ipv4: parseIp('192.168.77.254'), ipv6: parseIp('fd00:77::254') },
  far: { ipv4: parseIp('203.0.113.9'), ipv6: parseIp('2001:db8::9') },
};

function node(number: number, names: readonly string[]): PlannedNode {
  const podCidrs = [parseCidr(`10.10.${4 * number}.0/22`), parseCidr(`fd00:10:0:${number}::/64`)];
  const environment: NodeEnvironment = {
    gateway: {
      name: 'antrea-gw0',
      ofPort: ofPorts.gateway,
      mac: parseMac(`0e:00:00:00:0${number}:01`),
      mtu,
      addresses: podCidrs.map((cidr) => cidrAddress(cidr, 1n)),
    },
    tunnel: { ofPort: ofPorts.tunnel, type: 'geneve', port: 6081 },
    podCidrs,
    transport: [parseIp(`192.168.77.${number}`), parseIp(`fd00:77::${number}`)],
    serviceCidrs: [parseCidr('10.96.0.0/16'), parseCidr('fd00:96::/112')],
    localAddresses: Object.values(dnsCache).flat(),
  };
  const planned = names.map((name, index) => ({
    name,
    hostName: `h-${name}`,
    intent: {
      ofPort: podOfPorts.first + index,
      mac: parseMac(`0e:aa:00:00:0${number}:0${index + 5}`),
      addresses: podCidrs.map((cidr) => cidrAddress(cidr, BigInt(index + 5))),
    },
  }));
  return { name: `n${number}`, environment, pods: planned };
}

export const port = { server: 8080, datagrams: 5353, host: 6443, closed: 9, tunnel: 6081 } as const;

/** A Service with this last part of its address, in each family. */
interface PlannedService {
  readonly last: number;
  readonly transport: 'tcp' | 'udp';
  readonly port: number;
  readonly endpoints: readonly { readonly who: string; readonly port: number }[];
}

export const services = {
  web: { last: 0x10, transport: 'tcp', port: 80, endpoints: podEndpoints('a', 'b', 'c') },
  datagrams: { last: 0x10, transport: 'udp', port: 80, endpoints: podEndpoints('a', 'b', 'c') },
  /** Answers only from the second request on. */
  twice: { last: 0x11, transport: 'udp', port: 53, endpoints: [{ who: 'c', port: port.datagrams }] },
  twiceHere: { last: 0x12, transport: 'udp', port: 53, endpoints: [{ who: 'b', port: port.datagrams }] },
  onlyA: { last: 0x13, transport: 'tcp', port: 80, endpoints: podEndpoints('a') },
  onlyADatagrams: { last: 0x13, transport: 'udp', port: 80, endpoints: podEndpoints('a') },
  firstNode: { last: 0x14, transport: 'tcp', port: 443, endpoints: [{ who: 'n1', port: port.host }] },
  secondNode: { last: 0x15, transport: 'tcp', port: 443, endpoints: [{ who: 'n2', port: port.host }] },
  tunnelOfFirst: { last: 0x16, transport: 'udp', port: 80, endpoints: [{ who: 'n1', port: port.tunnel }] },
  tunnelOfSecond: { last: 0x17, transport: 'udp', port: 80, endpoints: [{ who: 'n2', port: port.tunnel }] },
  closed: { last: 0x18, transport: 'tcp', port: 80, endpoints: [{ who: 'c', port: port.closed }] },
  closedDatagrams: { last: 0x18, transport: 'udp', port: 80, endpoints: [{ who: 'c', port: port.closed }] },
  onlyC: { last: 0x19, transport: 'tcp', port: 80, endpoints: [{ who: 'c', port: port.datagrams }] },
  onlyCDatagrams: { last: 0x19, transport: 'udp', port: 80, endpoints: [{ who: 'c', port: port.datagrams }] },
} as const satisfies Readonly<Record<string, PlannedService>>;

function podEndpoints(...names: readonly string[]): PlannedService['endpoints'] {
  return names.map((who) => ({ who, port: port.server }));
}

export function clusterIp(service: keyof typeof services, family: Family): Ip {
  const { last } = services[service];
  return parseIp(family === 'ipv4' ? `10.96.0.${last}` : `fd00:96::${last.toString(16)}`);
}

/** The address of a pod by its name, or of a node by its. */
export function addressOf(who: string, family: Family): Ip {
  const transport = nodes.find(({ name }) => name === who)?.environment.transport;
  const found = (transport ?? podNamed(who).intent.addresses).find((ip) => ip.family === family);
  if (!found) throw new Error(`${who} has no address of ${family}`);
  return found;
}

export function gatewayOf(name: string, family: Family): Ip {
  const found = nodes.find((each) => each.name === name)?.environment.gateway.addresses.find((ip) => ip.family === family);
  if (!found) throw new Error(`there is no gateway of ${name}`);
  return found;
}

function podNamed(name: string): PlannedPod {
  const found = pods.find((pod) => pod.name === name);
  if (!found) throw new Error(`there is no pod ${name}`);
  return found;
}

export function macOf(pod: string): Mac {
  return podNamed(pod).intent.mac;
}

/** Knowledge of a node. */
export function sceneOf(node: PlannedNode): Scene {
  const { environment, name, pods: own } = node;
  const peers = nodes
    .filter((each) => each.name !== name)
    .map((each): PeerIntent => ({ name: each.name, podCidrs: each.environment.podCidrs, transport: each.environment.transport }));
  return { node: environment, peers, pods: own.map(({ intent }) => intent), services: sceneServices(), proxying: proxyingOf(node) };
}

function sceneServices(): SceneService[] {
  const names = Object.keys(services) as (keyof typeof services)[];
  return names.flatMap((name) =>
    families.map((family): SceneService => {
      const { transport, port: number, endpoints } = services[name];
      return sceneService({
        name: `${name}-${family}`,
        protocol: transport === 'tcp' ? 'TCP' : 'UDP',
        port: number,
        clusterIp: clusterIp(name, family).text,
        endpoints: endpoints.map(({ who, port: target }) => `${addressOf(who, family).text} ${target} ${nodeOf(who)}`),
      });
    }),
  );
}

function nodeOf(who: string): string | undefined {
  return nodes.find(({ name, pods: own }) => name === who || own.some((pod) => pod.name === who))?.name;
}

function proxyingOf({ name, environment }: PlannedNode): Proxying {
  const { transport, gateway } = environment;
  return { ...exampleProxying, node: { ...exampleProxying.node, name, addresses: transport, gateway: gateway.addresses } };
}
