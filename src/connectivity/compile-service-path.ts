import type { Cidr, Family, Ip } from '../net/ip.ts';
import { ctMark, reg } from '../pipeline/fields.ts';
import type { CtStep, Flow, Match, Step } from '../pipeline/flow.ts';
import { drop, goto, load, priority } from '../pipeline/flow.ts';
import type { Mark } from '../pipeline/registers.ts';
import { serviceNextHop, zones } from '../pipeline/well-known.ts';
import { familiesOf, type NodeEnvironment, ownCidrs } from './environment.ts';

/** What connections to Services need on every node, whatever Services there are. Pure. */
export function compileServicePath(environment: NodeEnvironment): readonly Flow[] {
  return familiesOf(environment).flatMap((family) => [
    ...restoring(family, environment),
    ...serviceEntry(family, environment),
    ...undecided(family),
    tellPieces(family),
    ...answers(family, environment),
    ...sourceTranslation(family, environment),
  ]);
}

/**
 * What comes back to a translated source: to the address that hairpin connections come from, or from a peer to the gateway, whose
 * address the world's connections to the peer's pods come from.
 */
function restoring(family: Family, { gateway }: NodeEnvironment): Flow[] {
  const restore: Step = { do: 'ct', zone: zones[family].snat, commit: false, next: 'track', nat: { kind: 'restore' }, exec: [] };
  const flow = (match: Match, ...steps: Step[]): Flow => ({
    table: 'unSnat',
    priority: priority.normal,
    match: { payload: family, ...match },
    steps: [...steps, restore],
  });
  return [
    flow({ ipDst: serviceNextHop[family] }, load(reg.rewriteMac('yes'))),
    ...gateway.addresses.filter((ip) => ip.family === family).map((ipDst) => flow({ ipDst, regs: [reg.source('tunnel')] })),
  ];
}

/**
 * Peers choose endpoints for their own pods; what comes from them goes where it says.
 *
 * Who comes by the gateway: the node itself has the gateway's address, and a pod that asked an address of its own node keeps its own.
 */
function serviceEntry(family: Family, environment: NodeEnvironment): Flow[] {
  const flow = (level: number, match: Match, ...steps: Step[]): Flow => ({
    table: 'serviceEntry',
    priority: level,
    match: { payload: family, ...match },
    steps,
  });
  const byGateway = (level: number, ipSrc: Ip | Cidr | undefined, scope: 'pod' | 'node' | 'world'): Flow =>
    flow(level, { regs: [reg.source('gateway')], ...(ipSrc && { ipSrc }) }, load(reg.scope(scope)), goto('sourceRanges'));
  const ofFamily = <T extends { readonly family: Family }>(all: readonly T[]): T[] => all.filter((each) => each.family === family);
  return [
    flow(priority.normal, { regs: [reg.source('tunnel')] }, goto('destinationIdentity')),
    flow(priority.normal, { regs: [reg.source('pod')] }, load(reg.scope('pod')), goto('sourceRanges')),
    ...ofFamily(environment.gateway.addresses).map((ip) => byGateway(priority.high, ip, 'node')),
    ...ofFamily(ownCidrs(environment)).map((cidr) => byGateway(priority.normal, cidr, 'pod')),
    byGateway(priority.low, undefined, 'world'),
  ];
}

/** What ends: an endpoint was picked that is no more, by a client that is remembered for it until it is forgotten. */
function undecided(family: Family): Flow[] {
  const states = [reg.serviceState('chosen'), reg.serviceState('learn')];
  return [
    ...states.map((state): Flow => ({ table: 'dnat', priority: priority.low, match: { payload: family, regs: [state] }, steps: drop })),
    // A group has chosen for a client that is still nobody's: to be remembered, and not to be chosen for once more.
    { table: 'affinity', priority: priority.low, match: { payload: family, regs: [reg.serviceState('learn')] }, steps: [] },
  ];
}

/**
 * A datagram that opens a connection may come in pieces, of which only the first shows the ports that the tracker saw. It comes first,
 * as the tracker puts them in order, and leaves word for the others. The kernel's data path shows none: what was tracked there is whole.
 */
function tellPieces(family: Family): Flow {
  return {
    table: 'dnat',
    priority: priority.high,
    match: { payload: family, protocol: 'udp', fragment: 'yes', regs: [reg.serviceState('chosen'), reg.pieces('untold')] },
    steps: [{ do: 'learnPieces', family }, load(reg.pieces('told')), { do: 'resubmit', table: 'dnat' }],
  };
}

/**
 * Whoever asked a Service by the gateway is answered by it, a pod of this node included: the node's packet filter may have translated
 * its packets before the bridge did. Answers that would be tunnel packets end here as all that pods forge: the address that they go to
 * is what the client said, and a node would take them for its peer's.
 */
function answers(family: Family, { gateway, tunnel }: NodeEnvironment): Flow[] {
  const answer: Match = {
    payload: family,
    ctState: { rpl: '+', trk: '+' },
    ctMarks: [ctMark.service('yes'), ctMark.source('gateway')],
  };
  const flow = (level: number, match: Match, steps: readonly Step[]): Flow => ({ table: 'route', priority: level, match, steps });
  const toGateway = [{ do: 'setEthDst', mac: gateway.mac } as const, load(reg.destination('gateway')), goto('ttl')];
  const carrier: Match = tunnel.type === 'gre' ? { protocol: 'gre' } : { protocol: 'udp', portDst: tunnel.port };
  return [
    ...(['pod', 'tunnel'] as const).map((from) => flow(priority.guard, { ...answer, ...carrier, regs: [reg.source(from)] }, drop)),
    flow(priority.override, answer, toGateway),
  ];
}

/**
 * Without source translation some endpoints would answer their clients past the translation back: whoever is client and endpoint at
 * once (the node is known here, a pod by a flow of its own), and an endpoint on another node that the world asked through this one.
 */
function sourceTranslation(family: Family, { gateway }: NodeEnvironment): Flow[] {
  const { main, snat } = zones[family];
  const ours = gateway.addresses.find((ip) => ip.family === family);
  const written = (...marks: readonly Mark[]): CtStep['exec'] => marks.map((mark) => ({ do: 'mark', mark }));
  const markIt = (regs: readonly Mark[], ...marks: readonly Mark[]): Flow => ({
    table: 'snatMark',
    priority: priority.normal,
    match: { payload: family, ctState: { new: '+', trk: '+' }, ctMarks: [ctMark.service('yes'), ctMark.snat('no')], regs },
    steps: [{ do: 'ct', zone: main, commit: true, next: 'snat', exec: written(...marks) }],
  });
  const translate = (ip: Ip, hairpin: Mark): Flow => ({
    table: 'snat',
    priority: priority.normal,
    match: { payload: family, ctState: { new: '+', trk: '+' }, ctMarks: [ctMark.snat('yes'), hairpin] },
    steps: [
      {
        do: 'ct',
        zone: snat,
        commit: true,
        next: 'switch',
        nat: { kind: 'src', ip },
        // The packet now carries this zone's mark, and the tables behind look at it.
        exec: written(ctMark.service('yes'), ctMark.snat('yes'), hairpin),
      },
    ],
  });
  const restore: Step = { do: 'ct', zone: snat, commit: false, next: 'switch', nat: { kind: 'restore' }, exec: [] };
  return [
    markIt([reg.source('gateway'), reg.destination('gateway')], ctMark.snat('yes'), ctMark.hairpin('yes')),
    translate(serviceNextHop[family], ctMark.hairpin('yes')),
    ...(ours ? [markIt([reg.scope('world'), reg.destination('tunnel')], ctMark.snat('yes')), translate(ours, ctMark.hairpin('no'))] : []),
    {
      table: 'snat',
      priority: priority.low,
      match: { payload: family, ctState: { new: '-', rpl: '-', trk: '+' }, ctMarks: [ctMark.snat('yes')] },
      steps: [restore],
    },
  ];
}
