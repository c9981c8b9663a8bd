import { z } from 'zod';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { type Cidr, cidrAddress, type Family, overlaps, parseCidr } from '../../src/base/net/ip.ts';
import { labIdOf, managementNetns, nodeNetns, outsideNetns } from './names.ts';

/** Maximum length of a socket's path: `sun_path` has 108 bytes, one of them the closing zero. */
const socketPathMax = 107;
/** The longest path of the lab or OVS below the lab's folder, with room for a seven-digit pid. */
const longestSocket = '/nodes/node-99/ovs-vswitchd.1234567.ctl';

const nodesMax = 60;

/** The fixed addresses of a lab. All of them are inside namespaces of the lab, so labs may share them. */
export const addressing = {
  transport: { ipv4: parseCidr('192.168.77.0/24'), ipv6: parseCidr('fd00:77::/64') },
  /** Network of every second node, with two subnets; a router is between the two. */
  secondTransport: { ipv4: parseCidr('192.168.78.0/24'), ipv6: parseCidr('fd00:78::/64') },
  /** The host of a real control plane, on the nodes' network. */
  controlPlane: { ipv4: '192.168.77.253', ipv6: 'fd00:77::fd' },
  /** Address of the external server; nodes reach it by their default route. */
  outside: { ipv4: '203.0.113.10', ipv6: '2001:db8:113::10' },
  management: parseCidr('172.31.255.0/24'),
  apiServerPort: 6443,
  podCidr: { ipv4: '10.244.0.0/16', ipv6: 'fd00:10:244::/56' },
  serviceCidr: { ipv4: '10.96.0.0/12', ipv6: 'fd00:10:96::/112' },
  /** Addresses that Services may use as `externalIPs`. */
  externalIps: { ipv4: '198.18.0.0/15', ipv6: '2001:db8:198::/48' },
  /** Address that upstream's test of `externalIPs` uses (test/e2e/network/service.go), on a real Kubernetes. */
  upstreamExternalIp: { ipv4: '203.0.113.250/32', ipv6: '2001:db8::cb00:71fa/128' },
  /** Prefix length of each node's pod CIDR. */
  nodeMask: { ipv4: 22, ipv6: 64 },
} as const;

/** Options of a lab. */
export interface LabOptions {
  readonly nodes: number;
  readonly dir: string;
  readonly families: readonly Family[];
  readonly tunnel: Tunnel;
  readonly datapath: Datapath;
  readonly podCidrs?: readonly string[] | undefined;
  readonly serviceCidrs?: readonly string[] | undefined;
  /** Kubeconfig of an existing API server; absent for the lab's own. */
  readonly kubeconfig?: string | undefined;
  /** Programs of a real Kubernetes, instead of the lab's small one. */
  readonly kubernetes?: KubernetesPrograms | undefined;
  /** Programs of a real control plane, for the lab's own small kubelets. */
  readonly controlPlane?: ControlPlanePrograms | undefined;
  /** True for nodes without a network plugin, with a real Kubernetes. */
  readonly bare?: boolean | undefined;
  /** The agent's key. For pre-plugged ports, the nodes have their namespace from the start. */
  readonly podInterface?: PodInterfaceOption | undefined;
  /** Subnets of the nodes, 1 or 2; with 2, every second node is in the second one. Default: 1. */
  readonly subnets?: number | undefined;
  /** How nodes send to each other's pods. Default: `encap`. */
  readonly mode?: TrafficMode | undefined;
  /** Encryption between nodes; absent: none. */
  readonly encryption?: 'wireguard' | undefined;
  /** True if the lab's own API server has the CRD of ClusterNetworkPolicy before agents start. */
  readonly clusterPolicies?: boolean | undefined;
  /** True if the lab's own API server shows the agents as pods, with `exec` for seinectl. */
  readonly agentPods?: boolean | undefined;
  /** Keys of the agent's configuration that are omitted: an agent of an earlier release ends on an unknown key. */
  readonly withoutAgentKeys?: readonly string[];
}

const tunnel = z.enum(['geneve', 'vxlan', 'gre']);
const datapath = z.enum(['netdev', 'system']);
const trafficMode = z.enum(['encap', 'noEncap', 'hybrid']);
const family = z.enum(['ipv4', 'ipv6']);
export type Tunnel = z.infer<typeof tunnel>;
export type TrafficMode = z.infer<typeof trafficMode>;
export type Datapath = z.infer<typeof datapath>;
const podInterface = z.enum(['auto', 'standing', 'veth']);
export type PodInterfaceOption = z.infer<typeof podInterface>;

const controlPlanePrograms = z.object({
  /** Version such as `1.37.2`. */
  version: z.string(),
  /** The folder of the programs. */
  programs: z.string(),
});
const kubernetesPrograms = controlPlanePrograms.extend({
  /** The folder of the images' archives. */
  images: z.string(),
});
/** Output of `npm run build:kubernetes`. */
export type KubernetesPrograms = z.infer<typeof kubernetesPrograms>;
/** Output with `--control-plane`. */
export type ControlPlanePrograms = z.infer<typeof controlPlanePrograms>;

/** @throws SeineError `INVALID_INPUT` if the text is not the output of the build */
export function parseKubernetesPrograms(text: string): KubernetesPrograms {
  return parseBuilt(kubernetesPrograms, text);
}

/** @throws SeineError `INVALID_INPUT` if the text is not the output of the build */
export function parseControlPlanePrograms(text: string): ControlPlanePrograms {
  return parseBuilt(controlPlanePrograms, text);
}

function parseBuilt<T>(shape: z.ZodType<T>, text: string): T {
  try {
    return shape.parse(JSON.parse(text));
  } catch (cause) {
    throw new SeineError('INVALID_INPUT', 'the build of Kubernetes said nothing of use', { cause });
  }
}

const nodePlan = z.object({
  name: z.string(),
  netns: z.string(),
  /** Transport addresses, one per family, in the order of the lab's families. */
  ips: z.array(z.string()),
  managementIp: z.string(),
});
export type NodePlan = z.infer<typeof nodePlan>;

const labPlan = z.object({
  version: z.literal(1),
  dir: z.string(),
  id: z.string(),
  families: z.array(family),
  tunnel,
  datapath,
  podCidrs: z.array(z.string()),
  serviceCidrs: z.array(z.string()),
  kubeconfig: z.string().optional(),
  kubernetes: kubernetesPrograms.optional(),
  controlPlane: controlPlanePrograms.optional(),
  bare: z.literal(true).optional(),
  podInterface: podInterface.optional(),
  withoutAgentKeys: z.array(z.string()).optional(),
  subnets: z.literal(2).optional(),
  mode: trafficMode.optional(),
  encryption: z.literal('wireguard').optional(),
  clusterPolicies: z.literal(true).optional(),
  agentPods: z.literal(true).optional(),
  external: z.object({ netns: z.string(), ips: z.array(z.string()), outside: z.array(z.string()) }),
  management: z.object({ netns: z.string(), ip: z.string(), apiServerUrl: z.string() }),
  nodes: z.array(nodePlan),
});

/** Everything about a lab that is decided before anything is started; kept as `lab.json`. */
export type LabPlan = z.infer<typeof labPlan>;

/** @throws SeineError `INVALID_INPUT` if the text is not a plan of this version */
export function parsePlan(text: string): LabPlan {
  try {
    return labPlan.parse(JSON.parse(text));
  } catch (cause) {
    throw new SeineError('INVALID_INPUT', 'lab.json is not a lab of this version', { cause });
  }
}

/**
 * @param options `dir` is a real path, see `realLabDir`
 * @throws SeineError `INVALID_INPUT` naming the unsupported option
 */
export function planLab(options: LabOptions): LabPlan {
  const { dir, families, nodes } = options;
  if (!Number.isInteger(nodes) || nodes < 1 || nodes > nodesMax)
    throw new SeineError('INVALID_INPUT', `--nodes ${nodes}: between 1 and ${nodesMax}`);
  if (options.bare === true && options.kubernetes === undefined)
    throw new SeineError('INVALID_INPUT', '--bare: only with --kubernetes, whose nodes can have a network installed');
  if ([options.kubeconfig, options.kubernetes, options.controlPlane].filter((given) => given !== undefined).length > 1)
    throw new SeineError('INVALID_INPUT', '--kubeconfig, --kubernetes, --control-plane: one API server is enough');
  const { subnets = 1 } = options;
  if (subnets !== 1 && subnets !== 2) throw new SeineError('INVALID_INPUT', `--subnets ${subnets}: 1 or 2`);
  if (subnets === 2 && options.kubernetes !== undefined)
    throw new SeineError('INVALID_INPUT', '--subnets 2: not with --kubernetes, whose control plane is on the link of the first subnet');
  if (subnets === 2 && options.mode === 'noEncap')
    throw new SeineError('INVALID_INPUT', '--mode noEncap: not with --subnets 2, whose router has no routes to pods');
  if (families.length === 0 || new Set(families).size !== families.length)
    throw new SeineError('INVALID_INPUT', '--families: ipv4, ipv6 or both, each once');
  if (Buffer.byteLength(dir) + longestSocket.length > socketPathMax)
    throw new SeineError('INVALID_INPUT', `--dir ${dir}: longer than ${socketPathMax - longestSocket.length} bytes, sockets would not fit`);
  const id = labIdOf(dir);
  const managementIp = cidrAddress(addressing.management, 1n).text;
  return {
    version: 1,
    dir,
    id,
    families: [...families],
    tunnel: options.tunnel,
    datapath: options.datapath,
    ...networksOf(options),
    ...(options.kubeconfig !== undefined && { kubeconfig: options.kubeconfig }),
    ...(options.kubernetes !== undefined && { kubernetes: options.kubernetes }),
    ...(options.controlPlane !== undefined && { controlPlane: options.controlPlane }),
    ...(options.bare === true && { bare: true as const }),
    ...(options.podInterface !== undefined && { podInterface: options.podInterface }),
    ...(subnets === 2 && { subnets: 2 as const }),
    ...(options.mode !== undefined && { mode: options.mode }),
    ...(options.encryption !== undefined && { encryption: options.encryption }),
    ...(options.clusterPolicies === true && { clusterPolicies: true as const }),
    ...(options.agentPods === true && { agentPods: true as const }),
    ...(options.withoutAgentKeys !== undefined && { withoutAgentKeys: [...options.withoutAgentKeys] }),
    external: {
      netns: outsideNetns(id),
      ips: families.map((of) => cidrAddress(addressing.transport[of], 254n).text),
      outside: families.map((of) => addressing.outside[of]),
    },
    management: {
      netns: managementNetns(id),
      ip: managementIp,
      apiServerUrl: `https://${managementIp}:${addressing.apiServerPort}`,
    },
    nodes: Array.from({ length: nodes }, (_, index) =>
      planNode(id, families, { number: index + 1, subnet: subnets === 2 ? index % 2 : 0 }),
    ),
  };
}

/** @param number from 1 */
function planNode(
  id: string,
  families: readonly Family[],
  { number, subnet }: { readonly number: number; readonly subnet: number },
): NodePlan {
  const name = `node-${number}`;
  return {
    name,
    netns: nodeNetns(id, name),
    ips: families.map((of) => cidrAddress(subnetNetwork(subnet, of), BigInt(number)).text),
    managementIp: cidrAddress(addressing.management, BigInt(number + 1)).text,
  };
}

/** Network of the nodes of a subnet. @param subnet from 0 */
function subnetNetwork(subnet: number, of: Family): Cidr {
  return (subnet === 0 ? addressing.transport : addressing.secondTransport)[of];
}

/** Addresses of the router in a subnet, by which its nodes reach the outside and the other subnet. @param subnet from 0 */
export function routerIps({ families }: Pick<LabPlan, 'families'>, subnet: number): string[] {
  return families.map((of) => cidrAddress(subnetNetwork(subnet, of), 254n).text);
}

/** Subnet of a node, from 0. */
export function subnetOf({ subnets, nodes }: Pick<LabPlan, 'subnets' | 'nodes'>, node: NodePlan): number {
  return subnets === 2 ? nodes.findIndex(({ name }) => name === node.name) % 2 : 0;
}

function networksOf({ families, nodes, kubeconfig, ...asked }: LabOptions): Pick<LabPlan, 'podCidrs' | 'serviceCidrs'> {
  const podCidrs = networks('--pod-cidr', asked.podCidrs, families, addressing.podCidr);
  const serviceCidrs = networks('--service-cidr', asked.serviceCidrs, families, addressing.serviceCidr);
  // The caller's API server assigns pod CIDRs to nodes itself.
  if (kubeconfig === undefined) for (const text of podCidrs) needRoomForNodes(parseCidr(text), nodes);
  for (const [option, texts] of Object.entries({ '--pod-cidr': podCidrs, '--service-cidr': serviceCidrs }))
    needApart(option, texts, [addressing.management, ...Object.values(addressing.transport), ...Object.values(addressing.secondTransport)]);
  needApart('--service-cidr', serviceCidrs, podCidrs.map(parseCidr));
  return { podCidrs, serviceCidrs };
}

function needRoomForNodes({ text, family: of, prefixLength }: Cidr, nodes: number): void {
  const mask = addressing.nodeMask[of];
  if (prefixLength > mask || 2 ** (mask - prefixLength) < nodes)
    throw new SeineError('INVALID_INPUT', `--pod-cidr ${text}: too small for a /${mask} for each of ${nodes} nodes`);
}

function needApart(option: string, texts: readonly string[], others: readonly Cidr[]): void {
  for (const text of texts) {
    const other = others.find((each) => overlaps(each, parseCidr(text)));
    if (other !== undefined) throw new SeineError('INVALID_INPUT', `${option} ${text}: overlaps ${other.text}, which the lab uses itself`);
  }
}

/** @throws SeineError `INVALID_INPUT` naming the option */
function network(option: string, text: string): Cidr {
  try {
    return parseCidr(text);
  } catch (cause) {
    throw new SeineError('INVALID_INPUT', `${option} ${JSON.stringify(text)}: not a network in CIDR notation, such as 10.0.0.0/16`, {
      cause,
    });
  }
}

/** One network per family, in the order of the families. */
function networks(
  option: string,
  asked: readonly string[] | undefined,
  families: readonly Family[],
  defaults: Readonly<Record<Family, string>>,
): string[] {
  if (asked === undefined) return families.map((of) => defaults[of]);
  const parsed = asked.map((text) => network(option, text));
  const ordered = families.map((of) => parsed.filter((cidr) => cidr.family === of));
  if (parsed.length !== families.length || ordered.some(({ length }) => length !== 1))
    throw new SeineError('INVALID_INPUT', `${option} ${asked.join(',')}: one network for each of ${families.join(', ')}`);
  return ordered.flat().map(({ text }) => text);
}
