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

/** Limits of the learned flows for packets of unknown tunnel peers: number, and idle timeout (s). */
const unknownTunnelPeers = { limit: 256, idleTimeout: 600, priority: 100 } as const;

/**
 * Maximum number of remembered clients of one Service port: a client that can send from any address must not exhaust OVS's memory. Further
 * clients are balanced as without affinity.
 */
export const affinityClientsMax = 10_000;
/**
 * Idle timeout of learned fragment flows (s). Longer than the data path caches the actions of first fragments (10 s), which create no
 * learned flow while cached.
 */
const fragmentsIdleTimeout = 30;
/** Value of `ip_frag` for a fragment other than the first. Source: ovs-fields(7). */
const laterFragment = 3;
/** Protocol of a later IPv6 fragment. Source: ovs-fields(7) `ip_proto`, IANA protocol numbers. */
const fragmentHeader = 44;
/**
 * Lifetime of an SCTP association's flows after the last packet of the initiator (s). Longer than the interval between two of its
 * heartbeats (30 s, plus half of that) with one lost heartbeat repeated (RFC 9260 section 8.3). Not an idle timeout: the other side's
 * heartbeats would extend it.
 */
const associationTimeout = 100;
/** Maximum number of association flows in one share, two for each association. OVS scans a whole share for each new one. */
export const associationFlowsMax = 500;
const endpointPort = bitRange(registerFields.endpointPort);
const serviceGroup = bitRange(registerFields.group);
const associationLearned = range('reg0', bitRange(registerFields.associationLearned));
const sourceOfPacket = bitRange(registerFields.source);

/** Returns the learn action of a step. It also defines which flows the step can create: `LearnedTemplate`. */
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

/** Learned flow that forwards later connections of this client to the endpoint chosen for this one. */
function learnChoice({ family, transport, idleSeconds, cookie }: LearnChoice): LearnAction {
  const port = whole(portFields[transport], 16);
  return {
    kind: 'learn',
    table: tables.affinity.id,
    priority: priority.normal,
    cookie,
    ...(idleSeconds === undefined ? {} : { idleTimeout: idleSeconds }),
    limit: affinityClientsMax,
    specs: [...clientFields(family, ipProtocols[transport]), { do: 'match', from: port, to: port }, ...chosenEndpoint(family)],
  };
}

/**
 * Learned flow for later fragments. They have no ports by which to find a Service, not even those of connection tracking
 * (`miniflow_extract` of Open vSwitch 3.1). Connection tracking delays the first fragment until all have arrived and can be translated.
 */
function learnFragments(family: Family): LearnAction {
  return {
    kind: 'learn',
    table: tables.affinity.id,
    priority: priority.high,
    cookie: learnedCookie,
    idleTimeout: fragmentsIdleTimeout,
    limit: affinityClientsMax,
    specs: [
      ...clientFields(family, family === 'ipv4' ? ipProtocols.udp : fragmentHeader),
      { do: 'match', from: laterFragment, to: whole('ip_frag', 2) },
      ...chosenEndpoint(family),
      { do: 'load', ...constantOf(reg.fragments('endpointKnown')) },
    ],
  };
}

/**
 * Learned flow for one side of an association: its own packets or, with addresses and ports exchanged, the replies. An association that is
 * `barred` was already known and takes no additional room.
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
      // Fragments have no ports.
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
    // Traffic that came through the node's stack has been admitted; traffic directly from a pod has not.
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
