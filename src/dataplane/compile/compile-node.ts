import type { Cidr, Family } from '../../base/net/ip.ts';
import { cidrAddress, cidrContains, hostCidr, parseCidr } from '../../base/net/ip.ts';
import { nothing, type Wanted } from '../desired/host-entries.ts';
import { ctMark, reg } from '../pipeline/fields.ts';
import type { CtStep, Flow, Match, Step } from '../pipeline/flow.ts';
import { drop, goto, load, output, priority } from '../pipeline/flow.ts';
import { icmpv6, neighbourDiscovery } from '../pipeline/icmpv6.ts';
import type { Mark } from '../pipeline/registers.ts';
import { serviceNextHop, tunnelCarriers, virtualMac, zones } from '../pipeline/well-known.ts';
import { announcing } from './compile-announcements.ts';
import { associations } from './compile-associations.ts';
import { commit } from './compile-commit.ts';
import { directPaths, repliesToBridge } from './compile-direct.ts';
import { entriesOfOthers } from './compile-entry.ts';
import { errorState, errorsOfOthers, errorsOfState, translationOfErrors } from './compile-errors.ts';
import { invalidOfKnown } from './compile-half-open.ts';
import { compileServicePath } from './compile-service-path.ts';
import { compileTables } from './compile-tables.ts';
import { expiringPackets } from './compile-time-exceeded.ts';
import { compileVerdicts } from './compile-verdict.ts';
import { checksReplies, familiesOf, linkLocal, type NodeEnvironment, ownCidrs } from './environment.ts';

const multicast: Readonly<Record<Family, readonly Cidr[]>> = {
  ipv4: [parseCidr('224.0.0.0/4'), parseCidr('255.255.255.255/32')],
  ipv6: [parseCidr('ff00::/8')],
};

/** Compiles the entries that bridge and host have on every node, independent of peers and pods. Pure. */
export function compileNode(environment: NodeEnvironment): Wanted {
  const families = familiesOf(environment);
  const flows = [
    ...compileTables(),
    ...classify(environment),
    ...spoofGuard(environment),
    ...neighbour(environment),
    ...families.flatMap((family) => [
      ...track(family),
      ...state(family, environment),
      ...invalidOfKnown(family),
      ...route(family, environment),
      ...ttl(family, environment),
      ...commit(family),
    ]),
    ...unSnat(environment),
    ...compileServicePath(environment),
    ...entriesOfOthers(environment),
    ...errorsOfOthers(environment),
    ...translationOfErrors(environment),
    ...associations(environment),
    ...compileVerdicts(environment),
    ...switching(environment),
    ...outputs(),
    ...expiringPackets(environment),
    ...directPaths(environment),
    announcing,
  ];
  const { name, mtu, mac } = environment.gateway;
  return {
    ...nothing,
    flows,
    links: [{ name, mtu, mac }],
    addresses: ownCidrs(environment).map((cidr) => ({ dev: name, ip: cidrAddress(cidr, 1n), prefixLength: cidr.prefixLength })),
    neighbours: families.map((family) => ({ dev: name, ip: serviceNextHop[family], mac: virtualMac })),
    routes: [
      // The node itself replies to hairpin connections, whose source this address is.
      ...families.map((family) => ({ destination: hostCidr(serviceNextHop[family]), dev: name })),
      // The kernel creates these routes with the addresses, and does not restore them when another process deletes them.
      ...ownCidrs(environment).map((destination) => ({ destination, dev: name, src: cidrAddress(destination, 1n) })),
      ...environment.serviceCidrs
        .filter((cidr) => families.includes(cidr.family))
        .map((destination) => ({ destination, via: serviceNextHop[destination.family], dev: name })),
      ...repliesToBridge(environment),
    ],
  };
}

/**
 * Neighbour discovery has code 0 (RFC 4861), and the code must be matched before the target: Open vSwitch 3.1 parses no target in other
 * messages, and its cached decision about one of them applies to every message of that type, with any code.
 */
function classify(environment: NodeEnvironment): Flow[] {
  const { gateway, tunnel } = environment;
  const families = familiesOf(environment);
  const fromGateway: readonly Step[] = [load(reg.source('gateway'))];
  const flow = (level: number, match: Match, ...steps: Step[]): Flow => ({ table: 'classify', priority: level, match, steps });
  return [
    flow(priority.guard, { vlan: 'tagged' }, ...drop),
    ...families.flatMap((family) =>
      family === 'ipv4'
        ? [flow(priority.high, { inPort: gateway.ofPort, payload: 'arp' }, ...fromGateway, goto('neighbour'))]
        : [icmpv6.neighbourSolicitation, icmpv6.neighbourAdvertisement].map((icmpType) =>
            flow(
              priority.high,
              { inPort: gateway.ofPort, payload: 'ipv6', protocol: 'icmp6', icmpType, icmpCode: 0 },
              ...fromGateway,
              goto('neighbour'),
            ),
          ),
    ),
    ...families.map((family) => flow(priority.normal, { inPort: gateway.ofPort, payload: family }, ...fromGateway, goto('unSnat'))),
    // Peers' flows are above these; other packets came from an unknown address.
    flow(
      priority.low,
      { inPort: tunnel.ofPort, tunFamily: 'ipv6' },
      { do: 'learnUnknownTunnelPeer', family: 'ipv6' },
      { do: 'resubmit', table: 'unknownTunnelPeers' },
    ),
    flow(
      priority.lowest,
      { inPort: tunnel.ofPort },
      { do: 'learnUnknownTunnelPeer', family: 'ipv4' },
      { do: 'resubmit', table: 'unknownTunnelPeers' },
    ),
  ];
}

/** Drops messages that only routers send, from any address; flows of each pod allow the rest of ND individually. */
function spoofGuard(environment: NodeEnvironment): Flow[] {
  // Counts packets that other nodes send with foreign addresses; the table would drop them anyway.
  const forgedByPeers: Flow = { table: 'spoofGuard', priority: priority.lowest, match: { inPort: environment.tunnel.ofPort }, steps: drop };
  if (!familiesOf(environment).includes('ipv6')) return [forgedByPeers];
  const routersOnly: readonly number[] = [icmpv6.routerSolicitation, icmpv6.routerAdvertisement, icmpv6.redirect];
  const guards = neighbourDiscovery.map(
    (icmpType): Flow => ({
      table: 'spoofGuard',
      priority: routersOnly.includes(icmpType) ? priority.guard : priority.high,
      match: { payload: 'ipv6', protocol: 'icmp6', icmpType },
      steps: drop,
    }),
  );
  return [...guards, forgedByPeers];
}

function neighbour({ gateway }: NodeEnvironment): Flow[] {
  const toGateway = [output(gateway.ofPort)];
  const flow = (match: Match): Flow => ({ table: 'neighbour', priority: priority.normal, match, steps: toGateway });
  const addresses = gateway.addresses.flatMap((ip) => (ip.family === 'ipv4' ? [ip] : [ip, linkLocal(gateway.mac)]));
  return addresses.flatMap((ip) =>
    ip.family === 'ipv4'
      ? [flow({ payload: 'arp', arpTpa: ip })]
      : [
          flow({ payload: 'ipv6', protocol: 'icmp6', icmpType: icmpv6.neighbourSolicitation, ndTarget: ip }),
          flow({ payload: 'ipv6', protocol: 'icmp6', icmpType: icmpv6.neighbourAdvertisement, ethDst: gateway.mac, ipDst: ip }),
        ],
  );
}

/** Records that a frame to the gateway's Ethernet address is to be routed, before the address is overwritten. */
function unSnat(environment: NodeEnvironment): Flow[] {
  const { gateway } = environment;
  return familiesOf(environment).flatMap((family): Flow[] => [
    {
      table: 'unSnat',
      priority: priority.low,
      match: { payload: family, ethDst: gateway.mac, regs: [reg.source('pod')] },
      steps: [load(reg.routed('yes')), goto('track')],
    },
  ]);
}

function track(family: Family): Flow[] {
  const step: CtStep = { do: 'ct', zone: zones[family].main, commit: false, next: 'state', nat: { kind: 'restore' }, exec: [] };
  return [{ table: 'track', priority: priority.normal, match: { payload: family }, steps: [step] }];
}

function state(family: Family, environment: NodeEnvironment): Flow[] {
  const flow = (level: number, match: Match, ...steps: Step[]): Flow => ({
    table: 'state',
    priority: level,
    match: { payload: family, ...match },
    steps,
  });
  // A fragmented router advertisement shows its type only after connection tracking has reassembled it.
  const guards =
    family === 'ipv6' ? neighbourDiscovery.map((icmpType) => flow(priority.guard, { protocol: 'icmp6', icmpType }, ...drop)) : [];
  const service = ctMark.service('yes');
  const routed = load(reg.routed('yes'));
  const fresh: Match['ctState'] = { new: '+', trk: '+' };
  return [
    ...guards,
    flow(priority.high, { ctState: { inv: '+', trk: '+' } }, ...drop),
    ...answers.map((ctState) => flow(priority.higher, { ctState, ctMarks: [ctMark.unadmitted('yes')] }, ...drop)),
    ...known(flow, service, [routed], { do: 'restoreIpSrc', family }),
    // Until the first reply, a client's second packet arrives already translated on the userspace data path, and matches no Service below.
    // On the kernel's data path it arrives untranslated, an endpoint is chosen again, and the connection keeps its previous one. There it
    // is also committed again, with unchanged marks.
    ...(['no', 'yes'] as const).map((yes) =>
      flow(
        priority.high,
        { ctState: { ...fresh, inv: '-' }, ctMarks: [service, ctMark.unadmitted(yes)] },
        routed,
        load(reg.unsettled(yes)),
        goto('serviceEntry'),
      ),
    ),
    ...known(flow, ctMark.service('no'), []),
    ...(environment.liveConnections === 'keep' ? [...kept(flow, service, routed), ...kept(flow, ctMark.service('no'))] : []),
    ...(checksReplies(environment)
      ? [...unacknowledged(flow, family, service, routed), ...unacknowledged(flow, family, ctMark.service('no'), load(reg.answerTo('yes')))]
      : []),
    flow(priority.lowest, { ctState: fresh }, load(reg.unsettled('yes')), goto('serviceEntry')),
  ];
}

/** States of packets that belong to a connection without opening it: its server's packets, and errors about it. */
const answers: readonly NonNullable<Match['ctState']>[] = [{ new: '-', rpl: '+', trk: '+' }, errorState];

/**
 * Flows for packets of known connections. Replies pass: they were admitted with the request. Errors pass if an end of the connection sent
 * them. The opening side is evaluated each time, so that an admitted connection can be ended.
 *
 * @param restored see `errorsOfState`
 *
 * These are above the flows of releases up to 0.3.0 (`normal`, `low`), which bypass `egressEntry` to tables that drop now. Those flows stay
 * until every source is synced, and of two flows of one priority either may win.
 */
function known(
  flow: (level: number, match: Match, ...steps: Step[]) => Flow,
  service: Mark,
  first: readonly Step[],
  restored?: Step,
): Flow[] {
  const entry = goto('egressEntry');
  const errors = errorsOfState(first, restored);
  const of = (ctState: NonNullable<Match['ctState']>): Match => ({ ctState: { ...ctState, inv: '-' }, ctMarks: [service] });
  return [
    flow(priority.high, of({ new: '-', rel: '-', rpl: '+', trk: '+' }), ...first, load(reg.verdict('standing')), entry),
    ...errors.ofRouters.map(({ regs, steps }) => flow(priority.high, { ...of(errorState), regs }, ...steps)),
    flow(priority.above, of(errorState), ...errors.others),
    flow(priority.high, of(openingSide), ...first, entry),
  ];
}

const openingSide: NonNullable<Match['ctState']> = { new: '-', rpl: '-', rel: '-', trk: '+' };

/**
 * Flows by which the opening side of an admitted connection also passes, where policies do not end established connections. Barred
 * connections are evaluated as usual.
 */
function kept(flow: (level: number, match: Match, ...steps: Step[]) => Flow, service: Mark, ...first: readonly Step[]): Flow[] {
  const match: Match = { ctState: { ...openingSide, inv: '-' }, ctMarks: [service, ctMark.unadmitted('no')] };
  return [flow(priority.higher, match, ...first, load(reg.verdict('standing')), goto('egressEntry'))];
}

/**
 * Flows for replies that need no acknowledgement: a server that only sends could continue after any denial. So they pass only while policy
 * also admits what they reply to. This is evaluated on the server's node, and on the client's, which for a Service requested a virtual
 * address.
 */
function unacknowledged(
  flow: (level: number, match: Match, ...steps: Step[]) => Flow,
  family: Family,
  service: Mark,
  ...first: readonly Step[]
): Flow[] {
  const ctState: Match['ctState'] = { new: '-', inv: '-', rel: '-', rpl: '+', trk: '+' };
  const ctMarks = [service, ctMark.unadmitted('no'), ctMark.hairpin('no')];
  return (['udp', family === 'ipv4' ? 'icmp' : 'icmp6'] as const).map((protocol) =>
    flow(
      priority.higher,
      { ctState, ctMarks, protocol },
      ...first,
      load(reg.verdict('standing')),
      load(reg.answerFrom('yes')),
      goto('egressEntry'),
    ),
  );
}

function route(family: Family, environment: NodeEnvironment): Flow[] {
  const { gateway, tunnel, serviceCidrs, localAddresses = [] } = environment;
  const flow = (level: number, match: Match, ...steps: Step[]): Flow => ({
    table: 'route',
    priority: level,
    match: { payload: family, ...match },
    steps,
  });
  const toGateway = [{ do: 'setEthDst', mac: gateway.mac } as const, load(reg.destination('gateway')), goto('ttl')];
  const carrier = tunnelCarriers[tunnel.type];
  const tunnelled: Match = carrier.protocol === 'udp' ? { protocol: 'udp', portDst: tunnel.port } : { protocol: 'gre' };
  const ofFamily = (cidrs: readonly Cidr[]) => cidrs.filter((cidr) => cidr.family === family);
  return [
    ...multicast[family].map((ipDst) => flow(priority.guard, { ipDst }, ...drop)),
    // Replies to this address have been translated by now. The node would return any other packet to it.
    flow(priority.guard, { ipDst: serviceNextHop[family] }, ...drop),
    // Flows to pods are above. Other packets go to the node or out through its masquerading, with the node's address: a pod that could send
    // tunnel packets that way would inject frames into any node's bridge.
    flow(priority.higher, { ...tunnelled, regs: [reg.source('pod')] }, ...drop),
    flow(priority.higher, { ...tunnelled, regs: [reg.source('tunnel')] }, ...drop),
    ...gateway.addresses.filter((ip) => ip.family === family).map((ipDst) => flow(priority.high, { ipDst }, ...toGateway)),
    // A peer sends only packets for this node's pods and gateway.
    flow(priority.normal, { regs: [reg.source('tunnel')] }, ...drop),
    // The node's own routes forwarded the packet here, for an unused pod address, or for a Service that does not exist or has another
    // protocol. The node would return it.
    ...ofFamily(ownCidrs(environment)).map((ipDst) => flow(priority.low, { ipDst, regs: [reg.source('gateway')] }, ...drop)),
    ...ofFamily(serviceCidrs).map((ipDst) => flow(priority.low, { ipDst }, ...drop)),
    // A Service that is left to the node, which has its address: NodeLocal DNSCache binds that of kube-dns.
    ...localAddresses
      .filter((ip) => ip.family === family && serviceCidrs.some((cidr) => cidrContains(cidr, ip)))
      .map((ipDst) => flow(priority.normal, { ipDst, regs: [reg.source('pod')] }, ...toGateway)),
    flow(priority.low, { regs: [reg.source('gateway')], ctMarks: [ctMark.service('no')] }, ...drop),
    flow(priority.lowest, {}, ...toGateway),
  ];
}

function ttl(family: Family, { gateway }: NodeEnvironment): Flow[] {
  const flow = (level: number, match: Match, ...steps: Step[]): Flow => ({
    table: 'ttl',
    priority: level,
    match: { payload: family, ...match },
    steps: [{ do: 'setEthSrc', mac: gateway.mac }, ...steps, goto('snatMark')],
  });
  const routed = reg.routed('yes');
  return [
    // The node's own stack decrements TTL itself.
    flow(priority.high, { regs: [routed, reg.source('gateway')] }),
    flow(priority.high, { regs: [routed, reg.destination('gateway')] }),
    flow(priority.normal, { regs: [routed] }, { do: 'decTtl' }),
  ];
}

function switching({ gateway, tunnel }: NodeEnvironment): Flow[] {
  const flow = (mac: NodeEnvironment['gateway']['mac'], port: number, destination: 'gateway' | 'tunnel'): Flow => ({
    table: 'switch',
    priority: priority.normal,
    match: { ethDst: mac },
    steps: [load(reg.outPort(port)), load(reg.destination(destination)), goto('ingressEntry')],
  });
  return [flow(gateway.mac, gateway.ofPort, 'gateway'), flow(virtualMac, tunnel.ofPort, 'tunnel')];
}

function outputs(): Flow[] {
  return [
    // A pod that is its own endpoint through an address of its node came through the gateway, and leaves by the register.
    ...(['pod', 'gateway'] as const).map(
      (kind): Flow => ({
        table: 'output',
        priority: priority.high,
        match: { ctMarks: [ctMark.hairpin('yes')], regs: [reg.source(kind), reg.destination(kind)] },
        steps: [{ do: 'outputInPort' }],
      }),
    ),
    ...(['pod', 'gateway', 'tunnel'] as const).map(
      (kind): Flow => ({
        table: 'output',
        priority: priority.normal,
        match: { regs: [reg.destination(kind)] },
        steps: [{ do: 'outputToRegister' }],
      }),
    ),
  ];
}
