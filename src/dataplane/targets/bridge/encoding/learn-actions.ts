import type { Family } from '../../../../base/net/ip.ts';
import { addressBits } from '../../../../base/net/ip.ts';
import type { LearnAction } from '../../../../openflow/actions/action.ts';
import type { Subfield } from '../../../../openflow/match/fields.ts';
import { associationCookieOf, learnedCookie } from '../../../pipeline/cookie.ts';
import { reg, registerFields } from '../../../pipeline/fields.ts';
import type { LearnAssociation, LearnChoice, LearnStep } from '../../../pipeline/flow.ts';
import { priority } from '../../../pipeline/flow.ts';
import { type BitRange, bitRange, type Mark } from '../../../pipeline/registers.ts';
import { tables } from '../../../pipeline/tables.ts';
import { etherTypes, ipProtocols, portFields, range, registerName, whole } from './openflow-words.ts';

/** Limits of the packets of unknown tunnel peers that are remembered: count, and time (s). */
const unknownTunnelPeers = { limit: 256, idleTimeout: 600, priority: 100 } as const;

/**
 * Limit of remembered clients of one Service port: a client that can send from any address must not fill the switch's memory. Beyond
 * that, clients are balanced as if there were no affinity.
 */
const choicesMax = 10_000;
/** Longer than the datapath caches the actions of first fragments (10 s), which then learn nothing (s). */
const fragmentsIdleTimeout = 30;
/** ovs-fields(7) `ip_frag`: a fragment, and not the first. */
const laterFragment = 3;
/** What a later fragment of IPv6 has as its protocol: ovs-fields(7) `ip_proto`, IANA protocol numbers. */
const fragmentHeader = 44;
/**
 * Life of what is known of an SCTP association after the last packet of the side that opened it (s): longer than between two of its heartbeats, which are
 * 30 s apart and half as much again, and a lost one repeated (RFC 9260 section 8.3). Not idle time, or the other side's heartbeats would keep it.
 */
const associationTimeout = 100;
/** Flows of associations, two for each, that one share has. The switch looks through all of a share for each new one. */
export const associationFlowsMax = 500;
const endpointPort = bitRange(registerFields.endpointPort);
const serviceGroup = bitRange(registerFields.group);
const associationLearned = range('reg0', bitRange(registerFields.associationLearned));
const sourceOfPacket = bitRange(registerFields.source);

/** Also what says which flows the step can teach: `LearnedTemplate`. */
export function toLearn(step: LearnStep): LearnAction {
  switch (step.do) {
    case 'learnUnknownTunnelPeer':
      return learnUnknownPeer(step.family === 'ipv4' ? whole('tun_src', 32) : whole('tun_ipv6_src', 128));
    case 'learnChoice':
      return learnChoice(step);
    case 'learnFragments':
      return learnFragments(step.family);
    case 'learnAssociation':
      return learnAssociation(step);
  }
}

function learnUnknownPeer(source: Subfield): LearnAction {
  return {
    kind: 'learn',
    table: tables.unknownTunnelPeers.id,
    priority: unknownTunnelPeers.priority,
    cookie: learnedCookie,
    idleTimeout: unknownTunnelPeers.idleTimeout,
    limit: unknownTunnelPeers.limit,
    specs: [{ do: 'match', from: source, to: source }],
  };
}

/** The learned flow gives later connections of this client the endpoint that was chosen for this one. */
function learnChoice({ family, transport, idleSeconds, cookie }: LearnChoice): LearnAction {
  const port = whole(portFields[transport], 16);
  return {
    kind: 'learn',
    table: tables.affinity.id,
    priority: priority.normal,
    cookie,
    ...(idleSeconds === undefined ? {} : { idleTimeout: idleSeconds }),
    limit: choicesMax,
    specs: [...clientFields(family, ipProtocols[transport]), { do: 'match', from: port, to: port }, ...chosenEndpoint(family)],
  };
}

/**
 * A later fragment shows no ports to find a Service by, not even the tracker's (`miniflow_extract` of Open vSwitch 3.1). Until all
 * fragments are here to be translated, the tracker holds the first one back.
 */
function learnFragments(family: Family): LearnAction {
  return {
    kind: 'learn',
    table: tables.affinity.id,
    priority: priority.high,
    cookie: learnedCookie,
    idleTimeout: fragmentsIdleTimeout,
    limit: choicesMax,
    specs: [
      ...clientFields(family, family === 'ipv4' ? ipProtocols.udp : fragmentHeader),
      { do: 'match', from: laterFragment, to: whole('ip_frag', 2) },
      ...chosenEndpoint(family),
      { do: 'load', ...constantOf(reg.fragments('endpointKnown')) },
    ],
  };
}

/**
 * One side of an association: its own packets, or with the ends exchanged those that answer it. What is barred was known before, and takes
 * no room that it did not have.
 */
function learnAssociation({ family, side, as, share }: LearnAssociation): LearnAction {
  const [from, to] = family === 'ipv4' ? (['ip_src', 'ip_dst'] as const) : (['ipv6_src', 'ipv6_dst'] as const);
  const ends = [
    [from, to, addressBits(family)],
    ['sctp_src', 'sctp_dst', 16],
  ] as const;
  const verdict = side === 'answer' ? (as === 'barred' ? 'deny' : 'standing') : as === 'kept' ? 'standing' : undefined;
  const loads = [reg.sctpSide(side), ...(verdict === undefined ? [] : [reg.verdict(verdict)])];
  return {
    kind: 'learn',
    table: tables.associations.id,
    priority: priority.normal,
    cookie: share === undefined ? learnedCookie : associationCookieOf(share),
    hardTimeout: associationTimeout,
    ...(share === undefined ? {} : { limit: associationFlowsMax, result: associationLearned }),
    specs: [
      { do: 'match', from: etherTypes[family], to: whole('eth_type', 16) },
      { do: 'match', from: ipProtocols.sctp, to: whole('ip_proto', 8) },
      ...ends.flatMap(([source, destination, bits]) => {
        const [first, second] = [whole(source, bits), whole(destination, bits)];
        const exchanged = side === 'answer';
        return [
          { do: 'match' as const, from: exchanged ? second : first, to: first },
          { do: 'match' as const, from: exchanged ? first : second, to: second },
        ];
      }),
      // Pieces show no ports.
      { do: 'match', from: 0, to: whole('ip_frag', 2) },
      ...loads.map((mark) => ({ do: 'load' as const, ...constantOf(mark) })),
    ],
  };
}

function clientFields(family: Family, ipProtocol: number): LearnSpecs {
  const bits = addressBits(family);
  const addresses = family === 'ipv4' ? (['ip_src', 'ip_dst'] as const) : (['ipv6_src', 'ipv6_dst'] as const);
  return [
    { do: 'match', from: etherTypes[family], to: whole('eth_type', 16) },
    { do: 'match', from: ipProtocol, to: whole('ip_proto', 8) },
    ...addresses.map((field) => ({ do: 'match' as const, from: whole(field, bits), to: whole(field, bits) })),
    // What came through the node has been allowed to, and a pod has not that comes straight.
    { do: 'match', ...partOf(sourceOfPacket) },
  ];
}

function chosenEndpoint(family: Family): LearnSpecs {
  const endpoint = whole(family === 'ipv4' ? 'reg3' : 'xxreg3', addressBits(family));
  const constants = [reg.serviceState('chosen'), reg.routed('yes')];
  return [
    { do: 'load', from: endpoint, to: endpoint },
    { do: 'load', ...partOf(endpointPort) },
    ...constants.map((mark) => ({ do: 'load' as const, ...constantOf(mark) })),
    { do: 'load', ...partOf(serviceGroup) },
  ];
}

type LearnSpecs = LearnAction['specs'];

function partOf(part: BitRange) {
  const place = range(registerName(part.reg), part);
  return { from: place, to: place };
}

function constantOf({ reg: number, value, mask }: Mark) {
  const first = 31 - Math.clz32(mask & -mask);
  return { from: value >>> first, to: range(registerName(number), { reg: number, first, width: 32 - Math.clz32(mask >>> first) }) };
}
