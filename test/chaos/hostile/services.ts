import type { ApiObject } from '../api.ts';
import type { Random } from '../random.ts';
import { hostileNamespace } from './actors.ts';
import type { Drawing } from './drawing.ts';
import { isSpecial, unusedAddresses } from './places.ts';
import { awkwardNames, awkwardValues, listOf, pairOfSizes, sizeOf } from './sizes.ts';

/** Maximum numbers that fit into one object (by the JSON of each member). */
const most = { ports: 12_000, externalIPs: 30_000, ranges: 30_000, selector: 3_000, annotations: 3_000 } as const;
const bytes = { ports: 75, externalIPs: 18, ranges: 21, selector: 30, annotations: 40 } as const;

/** Two repeated fields of a Service grow at once, and everything else is drawn. */
export function drawService(name: string, { random, foreign, nodePortsTaken }: Drawing): ApiObject {
  const type = random.pick(['ClusterIP', 'ClusterIP', 'NodePort', 'LoadBalancer', 'LoadBalancer']);
  if (random.chance(0.08)) return unservedService(name, random, foreign);
  const other = random.pick(['externalIPs', 'ranges', 'selector', 'annotations'] as const);
  const [portCount, otherCount] = pairOfSizes(random, [bytes.ports, bytes[other]], [portsMost(type), most[other]]);
  const outside = type !== 'ClusterIP';
  const isLoadBalancer = type === 'LoadBalancer';
  const local = outside && random.chance(0.4);
  return {
    metadata: {
      name,
      namespace: hostileNamespace,
      ...(other === 'annotations' && { annotations: annotations(otherCount) }),
      ...(random.chance(0.05) && { labels: random.pick(proxyLabels) }),
    },
    spec: {
      type,
      ...(random.chance(0.8) && { selector: selector(random, other === 'selector' ? otherCount : 1) }),
      ports: drawPorts(portCount, { random, nodePortsTaken, outside }),
      ...(random.chance(0.08) && { clusterIP: wantedClusterIp(random, foreign) }),
      ...(random.chance(0.2) && { trafficDistribution: random.pick(['PreferClose', 'PreferSameZone', 'PreferSameNode']) }),
      ipFamilyPolicy: random.pick(['SingleStack', 'PreferDualStack', 'PreferDualStack']),
      ...affinity(random),
      internalTrafficPolicy: random.pick(['Cluster', 'Cluster', 'Local']),
      ...(outside && { externalTrafficPolicy: local ? 'Local' : 'Cluster' }),
      ...(isLoadBalancer && local && random.chance(0.3) && { healthCheckNodePort: 30_000 + random.below(2_768) }),
      ...(isLoadBalancer && random.chance(0.5) && { allocateLoadBalancerNodePorts: random.chance(0.5) }),
      ...(isLoadBalancer && random.chance(0.3) && { loadBalancerIP: random.pick(foreign).address }),
      ...(random.chance(0.3) && { publishNotReadyAddresses: true }),
      ...(isLoadBalancer &&
        (other === 'ranges' || random.chance(0.3)) && { loadBalancerSourceRanges: ranges(random, other === 'ranges' ? otherCount : 3) }),
      ...((other === 'externalIPs' || random.chance(0.4)) && {
        externalIPs: externalIps(other === 'externalIPs' ? otherCount : 2, random, foreign),
      }),
    },
  };
}

/** Labels by which Services belong to another proxy, or to none. */
const proxyLabels = [{ 'service.kubernetes.io/service-proxy-name': 'constructor' }, { 'service.kubernetes.io/headless': '' }] as const;

/** A Service without a cluster address: only its names or its external addresses could be served. */
function unservedService(name: string, random: Random, foreign: Drawing['foreign']): ApiObject {
  const ports = [{ name: 'constructor', port: random.pick([80, 443]), targetPort: 80 }];
  const externalIPs = externalIps(2, random, foreign);
  const external = { type: 'ExternalName', externalName: random.pick(['open.victim.svc.cluster.local', '10.96.0.1', 'localhost']) };
  const headless = { clusterIP: 'None', selector: { app: 'attacker' }, publishNotReadyAddresses: true };
  return {
    metadata: { name, namespace: hostileNamespace },
    spec: { ...random.pick<object>([external, headless]), ports, externalIPs },
  };
}

/** A cluster IP of another Service, or an unallocated one. */
function wantedClusterIp(random: Random, foreign: Drawing['foreign']): string {
  const ofServices = foreign.map(({ address }) => address).filter((address) => /^(?:10\.(?:9[6-9]|1[01]\d)\.|fd00:10:96:)/.test(address));
  return random.pick([...ofServices, '10.96.0.10', '10.111.255.253', '10.244.0.1', '192.168.77.1']);
}

/** Each allocates a node port, of which a cluster has 2,768. */
function portsMost(type: string): number {
  return type === 'ClusterIP' ? most.ports : 400;
}

interface PortsDrawn {
  readonly random: Random;
  readonly nodePortsTaken: readonly number[];
  readonly outside: boolean;
}

function drawPorts(count: number, { random, nodePortsTaken, outside }: PortsDrawn): object[] {
  const first = count > 5_000 ? 1 : 1 + random.below(20_000);
  const protocol = random.pick(['TCP', 'UDP', 'SCTP']);
  return listOf(count, (index) => ({
    name: index === 0 ? random.pick(awkwardNames) : `p${index}`,
    protocol: random.chance(0.9) ? protocol : random.pick(['TCP', 'UDP']),
    port: index === 0 ? random.pick([80, 443, 53, first]) : first + 500 + index,
    targetPort: random.pick<number | string>([80, 80, 10_250, random.pick(awkwardNames)]),
    ...(outside && index === 0 && random.chance(0.3) && { nodePort: random.pick([...nodePortsTaken, 30_000, 32_767]) }),
  }));
}

function affinity(random: Random): object {
  if (random.chance(0.6)) return { sessionAffinity: 'None' };
  return { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: random.pick([1, 10_800, 86_400]) } } };
}

/** Selector of the attackers' pods, or of nothing. */
function selector(random: Random, count: number): Readonly<Record<string, string>> {
  if (count === 1) return random.pick<Record<string, string>>([{ app: 'attacker' }, { app: 'attacker' }, { app: 'web' }, {}]);
  const more = listOf(count - 1, (index) => [`${random.pick(awkwardNames)}-${index}`, random.pick(awkwardValues)]);
  return Object.fromEntries([...more, ['app', 'attacker']]) as Record<string, string>;
}

/** An API server accepts 256 KiB of them. */
function annotations(count: number): Readonly<Record<string, string>> {
  return Object.fromEntries(listOf(count, (index) => [`example.com/${awkwardNames[index % awkwardNames.length]}-${index}`, 'x']));
}

function externalIps(count: number, random: Random, foreign: Drawing['foreign']): string[] {
  const ofOthers = random.some(foreign.map(({ address }) => address).filter((address) => !isSpecial(address)));
  return [...ofOthers, ...unusedAddresses(count, random.pick(['ipv4', 'ipv6']), random.below(1_000))].slice(0, Math.max(count, 5));
}

function ranges(random: Random, count: number): string[] {
  const some = ['0.0.0.0/0', '::/0', '10.0.0.0/8', '192.168.77.5/24', '255.255.255.255/32', '0.0.0.0/32'];
  const many = unusedAddresses(count, 'ipv4', random.below(1_000)).map((address) => `${address}/${random.pick([24, 31, 32])}`);
  return random.chance(0.5) ? many : [...random.some(some), ...many].slice(0, Math.max(1, count));
}

/** Changes a mutable field of a Service. */
export function changedService(object: ApiObject, { random }: Drawing): object {
  const ports = (object.spec?.['ports'] ?? []) as readonly Readonly<Record<string, unknown>>[];
  return random.pick<object>([
    { spec: { selector: { app: random.pick(['attacker', 'web', 'unused']) } } },
    { spec: { sessionAffinity: random.pick(['None', 'ClientIP']), sessionAffinityConfig: null } },
    { spec: { publishNotReadyAddresses: random.chance(0.5) } },
    { spec: { ports: ports.slice(0, Math.max(1, sizeOf(random, ports.length))) } },
    { metadata: { annotations: { 'example.com/constructor': String(random.below(1_000)) } } },
  ]);
}
