import type { Cidr, Family } from '../../base/net/ip.ts';
import { masqueradedExternal, nodeTrafficMark, serviceNextHop, tunnelCarriers } from '../pipeline/well-known.ts';
import { familiesOf, type NodeEnvironment, type NodeWireGuard, ownCidrs } from './environment.ts';

/** Name of the node's nftables table. */
export const firewallTable = 'seine';

/** Chain of nftables: its hook, and its rules in the language of nft(8). */
interface FirewallChain {
  readonly name: string;
  readonly hook: string;
  readonly rules: readonly string[];
}

/** Mark with which kube-proxy, in each of its modes, selects packets to masquerade: the default of `--iptables-masquerade-bit`. */
const KUBE_PROXY_MARK = 0x4000;
/** Priority before kube-proxy's and every other chain at `srcnat` (100): the first chain with a matching rule translates a packet. */
const BEFORE_KUBE_PROXY = 95;

/** Priority after every translation of source addresses, so that the mark is not visible to rules of other programs that read it. */
const AFTER_TRANSLATION = 110;

/** Sets of the table: addresses of other nodes' tunnel end points. Each peer's owner sets its elements. */
export const tunnelPeerSets = { ipv4: 'tunnel-peers4', ipv6: 'tunnel-peers6' } as const satisfies Readonly<Record<Family, string>>;

/** Sets of the table: pod networks of other nodes. Each peer's owner sets its elements; they do not overlap. */
export const podNetworkSets = { ipv4: 'pods4', ipv6: 'pods6' } as const satisfies Readonly<Record<Family, string>>;

/** Sets of the table: pod networks of other nodes that may send without a tunnel; part of `podNetworkSets`. */
export const plainNetworkSets = { ipv4: 'plain4', ipv6: 'plain6' } as const satisfies Readonly<Record<Family, string>>;

/** Counters of the table: packets with addresses of pods that arrived without a tunnel, see {@link withPodAddresses}. */
export const guardCounters = { ipv4: 'pods-without-tunnel4', ipv6: 'pods-without-tunnel6' } as const satisfies Readonly<
  Record<Family, string>
>;

/** Settings that are not part of the environment. */
interface FirewallOptions {
  /** The kernel's data path sends tunnel packets through the node's IP stack; Open vSwitch in userspace bypasses it. */
  readonly dataPath: 'system' | 'netdev';
  /** Pods keep their addresses when they leave the cluster; the network outside translates or routes them. */
  readonly noSnat: boolean;
}

/**
 * Compiles the node's nftables rules, in a table of Seine's.
 *
 * Traffic that leaves the node except through the bridge leaves with the node's address: pods' addresses are not valid outside. The node's
 * traffic to the bridge must have the gateway's address, otherwise replies take another path; and traffic to a Service whose endpoint is
 * another node would leave the bridge with an address that only this node knows. Tunnel packets are excluded from the node's connection
 * tracking. Traffic that would leave untranslated is dropped.
 *
 * Tunnel packets that processes of the node send are dropped ({@link forgedByProcesses}). The bridge drops those that pods forge, but on
 * the userspace data path it cannot see the port of a fragment. Here fragments are reassembled.
 *
 * Connections from external clients to a pod of this node that a kube-proxy on this node masquerades would have the gateway's address, like
 * the node's own, which policy admits. They get an address of their own first; the mark is removed as kube-proxy does.
 */
export function compileFirewall(environment: NodeEnvironment, { dataPath, noSnat }: FirewallOptions): readonly FirewallChain[] {
  const { gateway, tunnel } = environment;
  const families = familiesOf(environment);
  const outside = outsideOf(environment);
  const masquerade = ownCidrs(environment).map(
    ({ family, text }) => `oifname != ${outside} ${keyword[family]} saddr ${text}${toOutside(family, environment)} masquerade fully-random`,
  );
  const ofGateway = (family: Family): string => {
    const texts = gateway.addresses.filter((ip) => ip.family === family).map(({ text }) => text);
    return texts.length === 1 ? texts.join('') : `{ ${texts.join(', ')} }`;
  };
  const fromNode = families.map(
    (family) => `oifname "${gateway.name}" ${keyword[family]} saddr != ${ofGateway(family)} fib saddr type local masquerade fully-random`,
  );
  const fromVirtual = families.map(
    (family) => `oifname != "${gateway.name}" ${keyword[family]} saddr ${serviceNextHop[family].text} masquerade`,
  );
  // The kernel does not translate packets that its connection tracking considers invalid.
  const untranslated = [
    ...(noSnat ? [] : ownCidrs(environment)),
    ...families.map((family) => ({ family, text: serviceNextHop[family].text })),
  ].map(({ family, text }) => `oifname != ${outside} ${keyword[family]} saddr ${text} ct state invalid drop`);
  const carrier = tunnelCarriers[tunnel.type];
  const carried = carrier.protocol === 'udp' ? `udp dport ${tunnel.port}` : `meta l4proto ${carrier.ipProtocol}`;
  const forged = `iifname "${gateway.name}" ${carried} drop`;
  return [
    {
      name: 'postrouting-external',
      hook: `type nat hook postrouting priority ${BEFORE_KUBE_PROXY}; policy accept;`,
      rules: [...ownCidrs(environment).map((cidr) => externalRule(gateway.name, cidr)), ...asGateway(environment)],
    },
    {
      name: 'postrouting',
      hook: 'type nat hook postrouting priority srcnat; policy accept;',
      rules: [...(noSnat ? [] : masquerade), ...fromVirtual, ...fromNode, ...fromNodeDirectly(environment)],
    },
    {
      name: 'prerouting-raw',
      hook: 'type filter hook prerouting priority raw; policy accept;',
      rules: [
        `${carried} notrack`,
        ...families.flatMap((family) => withPodAddresses(family, environment, noSnat)),
        ...(environment.directPackets ? ownCidrs(environment).flatMap(untrackedDirectPackets) : []),
      ],
    },
    { name: 'output-raw', hook: 'type filter hook output priority raw; policy accept;', rules: [`${carried} notrack`] },
    ...forgedByProcesses(gateway.name, carried, dataPath),
    { name: 'input', hook: 'type filter hook input priority filter; policy accept;', rules: [forged] },
    {
      name: 'forward',
      hook: 'type filter hook forward priority filter; policy accept;',
      rules: [forged, ...untranslated, `iifname "${gateway.name}" accept`, `oifname "${gateway.name}" accept`],
    },
  ];
}

/** Set of the interfaces by which packets reach pods: those by any other one leave the pods' network. */
function outsideOf({ gateway, wireGuard }: NodeEnvironment): string {
  return wireGuard ? `{ "${gateway.name}", "${wireGuard.device}" }` : `"${gateway.name}"`;
}

/**
 * Rules that give the node's own packets to pods of other nodes the gateway's address, which the receiving WireGuard device requires: the
 * device has no address of its own. The same for packets that a kube-proxy of this node masquerades.
 */
function asGateway(environment: NodeEnvironment): readonly string[] {
  const { gateway, wireGuard, podCidrs } = environment;
  if (!wireGuard) return [];
  const mark = `0x${KUBE_PROXY_MARK.toString(16)}`;
  return podCidrs.flatMap(({ family }) => {
    const own = gateway.addresses.find((ip) => ip.family === family);
    if (!own) return [];
    const [leaving, translated] = [
      `oifname "${wireGuard.device}" ${keyword[family]}`,
      `snat ${keyword[family]} to ${own.text} fully-random`,
    ];
    return [
      `${leaving} saddr != ${own.text} fib saddr type local ${translated}`,
      `${leaving} saddr != ${own.text} meta mark & ${mark} == ${mark} ${translated}`,
    ];
  });
}

/**
 * Drops packets that arrive with the address of a pod or of a gateway, and not through the bridge: traffic between nodes' pods is in the
 * tunnel, and the kernel does not see it. Otherwise any host on a link of the node could send as a pod, and policy would accept it:
 * `rp_filter` is off on many nodes, and IPv6 has none. The node itself sends to its own gateway address through the loopback interface.
 *
 * With `noSNAT`, pods of other nodes reach addresses of this node itself with their own addresses, through the network between nodes.
 */
function withPodAddresses(family: Family, environment: NodeEnvironment, noSnat: boolean): readonly string[] {
  const ip = keyword[family];
  const encrypted = environment.wireGuard ? `"${environment.wireGuard.device}", ` : '';
  const arriving = `iifname != { "${environment.gateway.name}", ${encrypted}"lo" } ${ip} saddr`;
  const dropped = `counter name "${guardCounters[family]}" drop`;
  const own = ownCidrs(environment).filter((cidr) => cidr.family === family);
  const announced = environment.directPackets ? ` ${ip} saddr != @${plainNetworkSets[family]}` : '';
  const others = `${arriving} @${podNetworkSets[family]}${announced}`;
  return [
    ...own.map(({ text }) => `${arriving} ${text} ${dropped}`),
    ...(noSnat
      ? [`${others} fib daddr type != local ${dropped}`, ...own.map(({ text }) => `${others} ${ip} daddr ${text} ${dropped}`)]
      : [`${others} ${dropped}`]),
  ];
}

/** Packets to pods of other nodes leave with the pod's own address, whichever way they take: policy there identifies it by that. */
function toOutside(family: Family, { directPackets }: NodeEnvironment): string {
  return directPackets ? ` ${keyword[family]} daddr != @${podNetworkSets[family]}` : '';
}

/** The node's processes reach pods of other nodes with the gateway's address on every way: policy there knows them by it. */
function fromNodeDirectly(environment: NodeEnvironment): readonly string[] {
  const { gateway, directPackets } = environment;
  if (!directPackets) return [];
  return familiesOf(environment).flatMap((family) => {
    const [ip, address] = [keyword[family], gateway.addresses.find((each) => each.family === family)];
    if (!address) return [];
    const toPods = `oifname != "${gateway.name}" ${ip} daddr @${podNetworkSets[family]}`;
    return [`${toPods} ${ip} saddr != ${address.text} fib saddr type local snat ${ip} to ${address.text} fully-random`];
  });
}

/**
 * Excludes packets between pods of two nodes from the kernel's connection tracking: the bridge tracks them, and the kernel may see one
 * direction only, because each node selects its own way. Packets for the node itself are tracked, because its firewall accepts replies by
 * their state.
 */
function untrackedDirectPackets({ family, text }: Cidr): readonly string[] {
  const [ip, others] = [keyword[family], `@${podNetworkSets[family]}`];
  return [`${ip} saddr ${text} ${ip} daddr ${others} notrack`, `${ip} saddr ${others} ${ip} daddr ${text} fib daddr type != local notrack`];
}

/**
 * Drops tunnel packets that a process of the node sends to another node, or to this one with an address that it does not have: with IPv6
 * any process can choose its source. A peer would accept the inner frame as one of this node's pods.
 *
 * Open vSwitch in userspace sends with packet sockets, which bypass all IP hooks. The kernel's data path sends through this hook: without a
 * socket, with one of another network namespace, which `skuid` does not match, or with that of the node's process that sent the inner
 * packet. That packet left through the gateway before, and is marked there: after `output`, where another program may have changed its
 * route.
 */
function forgedByProcesses(gateway: string, carried: string, dataPath: FirewallOptions['dataPath']): readonly FirewallChain[] {
  const ofProcess = 'meta skuid >= 0';
  const mark = `0x${nodeTrafficMark.toString(16)}`;
  const unmarked = dataPath === 'system' ? ` meta mark & ${mark} == 0` : '';
  const toPeers = (['ipv4', 'ipv6'] as const).map(
    (family) => `${carried} ${keyword[family]} daddr @${tunnelPeerSets[family]} ${ofProcess}${unmarked} counter drop`,
  );
  const asOthers = `${carried} fib daddr type local fib saddr type != local ${ofProcess} counter drop`;
  const dropping = { name: 'output', hook: 'type filter hook output priority filter; policy accept;', rules: [...toPeers, asOthers] };
  if (dataPath === 'netdev') return [dropping];
  return [
    dropping,
    {
      name: 'postrouting-mark',
      hook: `type filter hook postrouting priority ${AFTER_TRANSLATION}; policy accept;`,
      rules: [`oifname "${gateway}" ${ofProcess} meta mark set meta mark | ${mark}`],
    },
  ];
}

/** Body of the table, in the language of nft(8). Its sets are declared without elements. */
export function firewallBody(environment: NodeEnvironment, options: FirewallOptions): string {
  const sets = (['ipv4', 'ipv6'] as const).flatMap((family) => [
    `set ${tunnelPeerSets[family]} { type ${family}_addr; }`,
    `set ${podNetworkSets[family]} { type ${family}_addr; flags interval; }`,
    `set ${plainNetworkSets[family]} { type ${family}_addr; flags interval; }`,
    `counter ${guardCounters[family]} { }`,
  ]);
  const chains = compileFirewall(environment, options).map(({ name, hook, rules }) => `chain ${name} {\n${[hook, ...rules].join('\n')}\n}`);
  return [...sets, ...chains].join('\n');
}

function externalRule(gateway: string, { family, text }: Cidr): string {
  const ip = keyword[family];
  const [mark, others] = [KUBE_PROXY_MARK, ~KUBE_PROXY_MARK >>> 0].map((bits) => `0x${bits.toString(16)}`);
  return [
    `oifname "${gateway}" ${ip} daddr ${text} ct original ${ip} daddr != ${text}`,
    `meta mark & ${mark} == ${mark} fib saddr type != local`,
    `meta mark set meta mark & ${others} snat ${ip} to ${masqueradedExternal[family].text} fully-random`,
  ].join(' ');
}

/** Name of the nftables table that drops pods' packets on their way around encryption. */
export const clearTable = 'seine-clear';

/** Sets of the table: networks of other nodes' pods that are reached with encryption alone. Each peer's owner sets its elements. */
export const encryptedNetworkSets = { ipv4: 'pods4', ipv6: 'pods6' } as const satisfies Readonly<Record<Family, string>>;

/** Counters of the table: packets that would have left, or that arrived, without encryption. */
export const clearCounters = { ipv4: 'cleartext4', ipv6: 'cleartext6' } as const satisfies Readonly<Record<Family, string>>;

/** Settings that are not part of the environment. */
interface ClearTableOptions {
  /** Pods keep their addresses when they leave the cluster, also on their way to addresses of other nodes. */
  readonly noSnat: boolean;
}

/**
 * Body of the table, in the language of nft(8). Packets for pods of other nodes leave through the bridge or the WireGuard device, and
 * those with such a source arrive there. Routes alone do not ensure that: another program's route with a longer prefix takes precedence,
 * and while the device is down or gone, the default route applies.
 *
 * The table stays in the kernel while no agent runs.
 */
export function clearTableBody(environment: NodeEnvironment, { device }: NodeWireGuard, { noSnat }: ClearTableOptions): string {
  const gateway = environment.gateway.name;
  const families = familiesOf(environment);
  const rules = (of: (ip: string, set: string) => string): string[] =>
    families.map((family) => `${of(keyword[family], encryptedNetworkSets[family])} counter name "${clearCounters[family]}" drop`);
  const [around, outside] = [`{ "${gateway}", "${device}" }`, `{ "${gateway}", "${device}", "lo" }`];
  const toNode = noSnat ? ' fib daddr type != local' : '';
  return [
    ...(['ipv4', 'ipv6'] as const).flatMap((family) => [
      `set ${encryptedNetworkSets[family]} { type ${family}_addr; flags interval; }`,
      `counter ${clearCounters[family]} { }`,
    ]),
    chain(
      'forward',
      'forward',
      AFTER_FILTERS,
      rules((ip, set) => `oifname != ${around} ${ip} daddr @${set}`),
    ),
    chain(
      'output',
      'output',
      AFTER_FILTERS,
      rules((ip, set) => `oifname != ${outside} ${ip} daddr @${set}`),
    ),
    chain(
      'prerouting',
      'prerouting',
      'raw',
      rules((ip, set) => `iifname != ${around} ${ip} saddr @${set}${toNode}`),
    ),
  ].join('\n');
}

/** Priority after the filters of other programs: a packet that they drop is not counted. */
const AFTER_FILTERS = '150';

function chain(name: string, hook: string, priority: string, rules: readonly string[]): string {
  return `chain ${name} {\ntype filter hook ${hook} priority ${priority}; policy accept;\n${rules.join('\n')}\n}`;
}

const keyword: Readonly<Record<Family, string>> = { ipv4: 'ip', ipv6: 'ip6' };
