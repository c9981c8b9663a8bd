import { addressBits, type Cidr, cidrOf, type Family, type Ip } from '../../base/net/ip.ts';
import { nothing, type Wanted } from '../desired/host-entries.ts';
import { type Owner, ownerOf } from '../pipeline/cookie.ts';
import { ctMark, reg } from '../pipeline/fields.ts';
import type { CtStep, Flow, Match, Step } from '../pipeline/flow.ts';
import { drop, goto, load, meter, priority, resubmit, type Transport } from '../pipeline/flow.ts';
import type { Mark } from '../pipeline/registers.ts';
import { nodeMeters, serviceNextHop, unsentRanges, zones } from '../pipeline/well-known.ts';
import { shownCommit } from './compile-commit.ts';
import { externalSource, familiesOf, type NodeEnvironment, ownCidrs } from './environment.ts';

/** Compiles the flows that Services need on every node, independent of the Services themselves. Pure. */
export function compileServicePath(environment: NodeEnvironment): readonly Flow[] {
  return familiesOf(environment).flatMap((family) => [
    ...restoring(family, environment),
    ...serviceEntry(family, environment),
    ...undecided(family),
    recordFragmentEndpoint(family),
    ...untranslated(family),
    ...withoutMark(family),
    ...answers(family, environment),
    ...sourceTranslation(family, environment),
  ]);
}

/**
 * Flows for replies to a translated source: the address of hairpin connections, or from a peer the address of external clients' connections
 * to its pods. Connections older than that address used the gateway's.
 */
function restoring(family: Family, environment: NodeEnvironment): Flow[] {
  const restore: Step = { do: 'ct', zone: zones[family].snat, commit: false, next: 'track', nat: { kind: 'restore' }, exec: [] };
  const flow = (match: Match, ...steps: Step[]): Flow => ({
    table: 'unSnat',
    priority: priority.normal,
    match: { payload: family, ...match },
    steps: [...steps, restore],
  });
  return [
    flow({ ipDst: serviceNextHop[family] }, load(reg.routed('yes'))),
    ...[...ownCidrs(environment).map(externalSource), ...environment.gateway.addresses]
      .filter((ip) => ip.family === family)
      .map((ipDst) => flow({ ipDst, regs: [reg.source('tunnel')] })),
  ];
}

/**
 * Flows that select packets for Services. Peers choose endpoints for their own pods, so their packets go to the destination as it is.
 *
 * Sources behind the gateway: the node itself has the gateway's address; a pod that connects to an address of its own node keeps its own.
 */
function serviceEntry(family: Family, environment: NodeEnvironment): Flow[] {
  const flow = (level: number, match: Match, ...steps: Step[]): Flow => ({
    table: 'serviceEntry',
    priority: level,
    match: { payload: family, ...match },
    steps,
  });
  const byGateway = (level: number, ipSrc: Ip | Cidr | undefined, scope: 'pod' | 'node' | 'external'): Flow =>
    flow(level, { regs: [reg.source('gateway')], ...(ipSrc && { ipSrc }) }, load(reg.scope(scope)), goto('sourceRanges'));
  const ofFamily = <T extends { readonly family: Family }>(all: readonly T[]): T[] => all.filter((each) => each.family === family);
  return [
    flow(priority.normal, { regs: [reg.source('tunnel')] }, goto('egressEntry')),
    flow(priority.normal, { regs: [reg.source('pod')] }, load(reg.scope('pod')), goto('sourceRanges')),
    // Service addresses outside the ranges have flows of their Services.
    ...ofFamily(environment.serviceCidrs).map((ipDst) =>
      flow(priority.high, { ipDst, regs: [reg.source('pod')] }, load(reg.scope('pod')), goto('openings')),
    ),
    ...ofFamily(environment.gateway.addresses).map((ip) => byGateway(priority.high, ip, 'node')),
    ...ofFamily(ownCidrs(environment)).map((cidr) => byGateway(priority.normal, cidr, 'pod')),
    byGateway(priority.low, undefined, 'external'),
    ...ofFamily(notSources(environment)).map((ipSrc) => flow(priority.higher, { regs: [reg.source('gateway')], ipSrc }, ...drop)),
  ];
}

/**
 * Returns destination addresses from which no host sends: such a source from the gateway is forged. A connection from one may be the
 * reverse of another, or be translated to itself, and Open vSwitch 3.1.0 aborts on such.
 */
export function notSources(environment: NodeEnvironment): readonly Cidr[] {
  const sources = ownCidrs(environment).map((cidr) => cidrOf(externalSource(cidr), addressBits(cidr.family)));
  return [...unsentRanges, ...environment.serviceCidrs, ...sources];
}

/**
 * Flows for packets for which connection tracking found no free tuple: they should have been translated, but are still new and have no
 * mark. On the userspace data path of Open vSwitch 3.1 a client's previous translations occupy tuples until they expire, and every attempt
 * tries random ports. So translation is tried twice more, for which the data path has room; then the agent sends the packet again. If that
 * fails too, it is dropped: untranslated it would be misrouted. The kernel's data path drops such a packet itself.
 */
function withoutMark(family: Family): Flow[] {
  const steps = shownCommit({ zone: zones[family].main, next: 'egressEntry', exec: [] });
  const match: Match = {
    payload: family,
    ctState: { new: '+', dnat: '+', trk: '+' },
    ctMarks: [ctMark.service('no')],
    regs: [reg.serviceState('chosen'), reg.tries('none')],
  };
  return [{ table: 'egressEntry', priority: priority.guard, match, steps: [load(reg.tries('one')), ...steps] }];
}

/** Flows for packets that are dropped: the chosen endpoint no longer exists, and the client is remembered for it until that expires. */
function untranslated(family: Family): Flow[] {
  const flow = (level: number, regs: readonly Mark[], ...steps: Step[]): Flow => ({
    table: 'egressEntry',
    priority: level,
    match: {
      payload: family,
      ctState: { new: '+', dnat: '-', trk: '+' },
      ctMarks: [ctMark.service('no')],
      regs: [reg.serviceState('chosen'), ...regs],
    },
    steps,
  });
  const again = resubmit('sourceRanges');
  return [
    flow(priority.guard, [reg.tries('none')], load(reg.tries('one')), again),
    flow(priority.guard, [reg.tries('one')], load(reg.tries('two')), again),
    flow(priority.guard, [reg.tries('two'), reg.halfOpenProbe('no')], { do: 'toAgent', reason: 'untranslated' }),
    flow(priority.override, [reg.tries('two')], ...drop),
  ];
}

/** A group has chosen for a client without a learned flow: learn it, and do not choose again. */
function undecided(family: Family): Flow[] {
  const states = [reg.serviceState('chosen'), reg.serviceState('learn')];
  return [
    ...states.map((state): Flow => ({ table: 'dnat', priority: priority.low, match: { payload: family, regs: [state] }, steps: drop })),
    // Flow that learns the endpoint of a fragmented datagram. Only the first fragment of a datagram that opens a connection shows the
    // tracked ports. It comes first, as connection tracking orders them, and its endpoint is learned for the others. The kernel's data path
    // reassembles: flows see no fragments.
    { table: 'affinity', priority: priority.low, match: { payload: family, regs: [reg.serviceState('learn')] }, steps: [] },
  ];
}

/**
 * Flows for replies. A client that reached a Service through the gateway gets replies through it, even a pod of this node: nftables may
 * have translated its packets before the bridge did. Replies that would be tunnel packets are dropped as forged: their destination is what
 * the client claimed, and a node would accept them as its peer's.
 */
function recordFragmentEndpoint(family: Family): Flow {
  return {
    table: 'dnat',
    priority: priority.high,
    match: { payload: family, protocol: 'udp', fragment: 'yes', regs: [reg.serviceState('chosen'), reg.fragments('endpointUnknown')] },
    steps: [{ do: 'learnFragments', family }, load(reg.fragments('endpointKnown')), { do: 'resubmit', table: 'dnat' }],
  };
}

const protocolsWithoutSctp = { ipv4: ['tcp', 'udp', 'icmp'], ipv6: ['tcp', 'udp', 'icmp6'] } as const;

/** A packet that connection tracking considers invalid has no direction, but is translated. */
function answers(family: Family, { gateway, tunnel, blindToSctp }: NodeEnvironment): Flow[] {
  const of = (ctState: Match['ctState']): Match => ({
    payload: family,
    ...(ctState && { ctState }),
    ctMarks: [ctMark.service('yes'), ctMark.source('gateway')],
  });
  // Translated by nftables only: host ports.
  const all = [of({ rpl: '+', trk: '+' }), of({ inv: '+', snat: '+', trk: '+' })];
  const flow = (level: number, match: Match, steps: readonly Step[]): Flow => ({ table: 'route', priority: level, match, steps });
  const toGateway = [{ do: 'setEthDst', mac: gateway.mac } as const, load(reg.destination('gateway')), goto('ttl')];
  const carrier: Match = tunnel.type === 'gre' ? { protocol: 'gre' } : { protocol: 'udp', portDst: tunnel.port };
  // Without ports all SCTP of two addresses is one connection to connection tracking, and a supposed reply may be none.
  const ofHostPort: Match = {
    payload: family,
    ctState: { rpl: '+', trk: '+' },
    ctMarks: [ctMark.service('no'), ctMark.source('gateway')],
    regs: [reg.source('pod')],
  };
  // Flows for source translation. Without it the replies of some endpoints would bypass the reverse translation: a client that is its own
  // endpoint (the node here, a pod by a flow of its own), and an endpoint on another node that an external client reached through this one.
  const answering = blindToSctp ? protocolsWithoutSctp[family].map((protocol) => ({ ...ofHostPort, protocol })) : [ofHostPort];
  return [
    flow(priority.guard, { ...ofHostPort, ...carrier }, drop),
    ...answering.map((answer) => flow(priority.override, answer, toGateway)),
    ...all.flatMap((answer) => [
      ...(['pod', 'tunnel'] as const).map((from) => flow(priority.guard, { ...answer, ...carrier, regs: [reg.source(from)] }, drop)),
      flow(priority.override, answer, toGateway),
    ]),
  ];
}

/** No ingress policy of another pod follows: it leaves through the tunnel, or returns to the node. */
function sourceTranslation(family: Family, environment: NodeEnvironment): Flow[] {
  const ours = ownCidrs(environment)
    .map(externalSource)
    .find((ip) => ip.family === family);
  const marked = (regs: readonly Mark[], ...marks: readonly Mark[]): Flow => markedForTranslation(family, regs, marks);
  return [
    admittedAfterDenial(family),
    marked([reg.source('gateway'), reg.destination('gateway')], ctMark.snat('yes'), ctMark.hairpin('yes')),
    ...translatedSource(serviceNextHop[family], ctMark.hairpin('yes')),
    ...(ours
      ? [
          marked([reg.scope('external'), reg.destination('tunnel')], ctMark.snat('yes'), ctMark.receiver(environment.tunnel.ofPort)),
          ...translatedSource(ours, ctMark.hairpin('no')),
        ]
      : []),
    // A packet that connection tracking considers invalid has no direction, but a reply shows its translation. The kernel's data path shows
    // that of every packet.
    {
      table: 'snat',
      priority: priority.low,
      match: { payload: family, ctState: { inv: '+', snat: '-', trk: '+' }, ctMarks: [ctMark.snat('yes')] },
      steps: [{ do: 'ct', zone: zones[family].snat, commit: false, next: 'switch', nat: { kind: 'restore' }, exec: [] }],
    },
  ];
}

function written(...marks: readonly Mark[]): CtStep['exec'] {
  return marks.map((mark) => ({ do: 'mark', mark }));
}

/** Marks a new connection whose source is to be translated. */
function markedForTranslation(family: Family, regs: readonly Mark[], marks: readonly Mark[]): Flow {
  return {
    table: 'snatMark',
    priority: priority.normal,
    match: { payload: family, ctState: { new: '+', trk: '+' }, ctMarks: [ctMark.service('yes'), ctMark.snat('no')], regs },
    // One action for all packets of the opening side: the zone may have lost the state of the first packet, or never have had it. After a
    // restart of OVS a connection begins with a packet from its middle, which userspace connection tracking considers known as soon as it
    // is committed for the second time.
    steps: shownCommit({ zone: zones[family].main, next: 'snat', exec: written(...marks, ctMark.unadmitted('no')) }),
  };
}

/**
 * Marks a connection as admitted whose source is translated. A later policy may lift a denial that barred a known connection. A connection
 * is also barred if its second packet was looked up before the first was committed: that packet is still new, and its commit for the
 * Service bars a connection whose first packet has passed here. Tables after the other zone do not see this mark.
 */
function admittedAfterDenial(family: Family): Flow {
  return {
    table: 'snatMark',
    priority: priority.normal,
    match: { payload: family, ctState: { inv: '-', trk: '+' }, ctMarks: [ctMark.snat('yes'), ctMark.unadmitted('yes')] },
    steps: [{ do: 'ct', zone: zones[family].main, commit: true, next: 'snat', exec: written(ctMark.unadmitted('no')) }],
  };
}

/** The packet carries this zone's mark from here on, and the later tables match it. */
function translatedSource(ip: Ip, hairpin: Mark): readonly Flow[] {
  const { family } = ip;
  const flow = (level: number, ctState: Match['ctState'], ...first: readonly Step[]): Flow => ({
    table: 'snat',
    priority: level,
    match: { payload: family, ...(ctState && { ctState }), ctMarks: [ctMark.snat('yes'), hairpin] },
    steps: [
      ...first,
      {
        do: 'ct',
        zone: zones[family].snat,
        commit: true,
        next: 'switch',
        nat: { kind: 'src', ip },
        // Errors about the connection match these marks, see `compile-errors.ts`.
        exec: written(ctMark.service('yes'), ctMark.snat('yes'), hairpin),
      },
    ],
  });
  return [
    flow(priority.normal, { new: '+', trk: '+' }),
    flow(priority.normal, { new: '-', rpl: '-', inv: '-', trk: '+' }),
    ...(family === 'ipv6' ? [flow(priority.high, { new: '-', rel: '+', rpl: '-', inv: '-', trk: '+' }, { do: 'setIpSrc', ip })] : []),
  ];
}

export const unservedPortsOwner: Owner = ownerOf('node', 'unserved-ports');

/** Rate (packets per second) and burst of packets sent to the agent for refusal. */
const shownUnserved = { rate: 500, burst: 1_000 } as const;
const transports: readonly Transport[] = ['tcp', 'udp', 'sctp'];

/**
 * Compiles flows for new connections of pods and of the node to an address in a Service range that no Service port matched. The agent
 * refuses those to cluster addresses of Services (`ClusterAddresses`) and drops the rest, like kube-proxy: a Service may be new.
 *
 * A separate owner: OVS without meters must not refuse the node's other flows. Pure.
 */
export function compileUnservedPorts(environment: NodeEnvironment): Wanted {
  if (environment.serviceCidrs.length === 0) return nothing;
  return {
    ...nothing,
    meters: [{ id: nodeMeters.unservedPorts, unit: 'packets', ...shownUnserved }],
    flows: familiesOf(environment).flatMap((family) => unservedToAgent(family, environment)),
  };
}

function unservedToAgent(family: Family, { serviceCidrs }: NodeEnvironment): Flow[] {
  const ofFamily = serviceCidrs.filter((cidr) => cidr.family === family);
  return ofFamily.flatMap((ipDst) =>
    transports.flatMap((protocol) =>
      (['pod', 'gateway'] as const).map(
        (source): Flow => ({
          table: 'route',
          priority: priority.aboveLow,
          match: { payload: family, protocol, ipDst, ctState: { new: '+', trk: '+' }, regs: [reg.source(source)] },
          steps: [meter(nodeMeters.unservedPorts), { do: 'toAgent', reason: 'unservedPort' }],
        }),
      ),
    ),
  );
}
