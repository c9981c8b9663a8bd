import type { Cidr, Family, Ip } from '../../base/net/ip.ts';
import type { Mac } from '../../base/net/mac.ts';
import type { BitRange, Mark } from './registers.ts';
import type { PipelineTableName } from './tables.ts';
import type { PipelinePacketInReason } from './well-known.ts';

/** Priorities of flows; higher wins. All priorities are here, with gaps, so that no two flows conflict by accident. */
export const priority = {
  miss: 0,
  aboveMiss: 1,
  lowest: 100,
  low: 190,
  aboveLow: 195,
  normal: 200,
  overNormal: 201,
  aboveNormal: 202,
  overAboveNormal: 203,
  above: 205,
  high: 210,
  overHigh: 212,
  aboveHigh: 215,
  higher: 220,
  highest: 230,
  aboveHighest: 235,
  override: 240,
  aboveOverride: 245,
  guard: 250,
  /** Above all others: flows for trace probes, which no other packet matches. */
  probe: 260,
} as const;

export type Transport = 'tcp' | 'udp' | 'sctp';

/** Bits of `ct_state` that flows match; each may be required set (`+`) or clear (`-`). Source: ovs-fields(7) "ct_state". */
export type CtState = 'new' | 'est' | 'rel' | 'rpl' | 'inv' | 'trk' | 'snat' | 'dnat';

/** IP protocol of a match. `icmp` and `icmp6` match only one family each. */
export type MatchProtocol = Transport | 'icmp' | 'icmp6' | 'gre';

/** EtherType of the frame. */
export type Payload = Family | 'arp';

/** Header fields that a flow may match. Each at most once, which is why this is a record and not a list. */
export interface Match {
  readonly inPort?: number;
  readonly ethSrc?: Mac;
  readonly ethDst?: Mac;
  /** Source MACs whose last bits have these values. */
  readonly ethSrcEnd?: Bits;
  /** Matches only VLAN-tagged frames. A flow without this field matches tagged and untagged frames. */
  readonly vlan?: 'tagged';
  readonly payload?: Payload;
  readonly protocol?: MatchProtocol;
  readonly ipSrc?: Ip | Cidr;
  readonly ipDst?: Ip | Cidr;
  /** TTL or hop limit. */
  readonly ttl?: number;
  /** Source addresses whose last 32 bits have these values. */
  readonly ipSrcEnd?: Bits;
  /** One port, or those with these bits. */
  readonly portDst?: number | Bits;
  /**
   * Packets with only this flag out of FIN, SYN, RST, PSH, ACK and URG: the packet that opens a connection, or a reset of an unknown one.
   */
  readonly tcpFlags?: 'syn' | 'rst';
  /** Packets with this flag, whatever the others. Not together with `tcpFlags`. */
  readonly tcpFlag?: 'fin' | 'syn' | 'rst';
  /** Source ports with these bits, by which a Service is divided over several groups. */
  readonly portSrc?: Bits;
  /** Fragments. Only the first has ports. */
  readonly fragment?: 'yes';
  /** Destination port of the connection's original tuple, reassembled: of its fragments, only the first has ports. Tracked packets only. */
  readonly ctPortDst?: number;
  readonly ctPortSrc?: Bits;
  readonly icmpType?: number;
  readonly icmpCode?: number;
  readonly ndTarget?: Ip;
  /** Source link-layer address option; `absent` matches messages without one. */
  readonly ndSll?: Mac | 'absent';
  readonly ndTll?: Mac | 'absent';
  readonly arpOp?: 'request' | 'reply';
  readonly arpSpa?: Ip;
  readonly arpTpa?: Ip;
  readonly arpSha?: Mac;
  /** Outer source address of a tunnelled packet. `none4` and `none6` match packets whose outer header is of the other family. */
  readonly tunSrc?: Ip;
  readonly tunFamily?: Family;
  /** Key of a tunnelled packet. */
  readonly tunKey?: Bits;
  readonly ctState?: Partial<Readonly<Record<CtState, '+' | '-'>>>;
  readonly ctMarks?: readonly Mark[];
  readonly regs?: readonly Mark[];
}

/** Value under a mask. */
export interface Bits {
  readonly value: number;
  readonly mask: number;
}

/** Source or destination translation. `restore` applies the translation with which the connection was committed. */
export type Nat =
  | { readonly kind: 'restore' }
  | { readonly kind: 'dst'; readonly ip: Ip; readonly port?: number }
  | { readonly kind: 'src'; readonly ip: Ip };

/** Values written into the connection when it is committed. */
export type CtExec =
  | { readonly do: 'mark'; readonly mark: Mark }
  | { readonly do: 'moveToMark'; readonly from: BitRange; readonly to: BitRange };

export interface CtStep {
  readonly do: 'ct';
  readonly zone: number;
  readonly commit: boolean;
  /** Table where the tracked packet continues; without one the packet continues with the next step, untracked. */
  readonly next?: PipelineTableName;
  readonly nat?: Nat;
  readonly exec: readonly CtExec[];
}

export type Step =
  | { readonly do: 'load'; readonly mark: Mark }
  | { readonly do: 'setEthSrc'; readonly mac: Mac }
  | { readonly do: 'setEthDst'; readonly mac: Mac }
  | { readonly do: 'setIpSrc'; readonly ip: Ip }
  /** Sets the source to the original destination of the connection's first packet. Tracked IPv6 packets only. */
  | { readonly do: 'setIpSrcToOpened' }
  /** Copies the source address to the registers of the endpoint, and back. */
  | { readonly do: 'saveIpSrc' | 'restoreIpSrc'; readonly family: Family }
  | { readonly do: 'setTunSrc'; readonly ip: Ip }
  | { readonly do: 'setTunDst'; readonly ip: Ip }
  /** Writes the number of a trace probe into the key of the tunnel. */
  | { readonly do: 'probeToTunnel' }
  /** Turns a packet from the tunnel with such a key into a trace probe without a key. */
  | { readonly do: 'probeFromTunnel' }
  | { readonly do: 'decTtl' }
  /** Turns an ARP request into the reply "`ip` is at `mac`" and returns it. */
  | { readonly do: 'answerArp'; readonly mac: Mac; readonly ip: Ip }
  | CtStep
  | { readonly do: 'group'; readonly group: number }
  /**
   * Drops packets that exceed the meter's rate. First of a flow's actions, otherwise it would meter the packet as changed by other actions.
   */
  | { readonly do: 'meter'; readonly meter: number }
  /** Resubmits to a table. With `by`, it sees addresses and ports as in the connection's first packet; tables that it resubmits to do not. */
  | { readonly do: 'resubmit'; readonly table: PipelineTableName; readonly by?: 'originalTuple' }
  | { readonly do: 'goto'; readonly table: PipelineTableName }
  | { readonly do: 'output'; readonly port: number }
  | { readonly do: 'outputToRegister' }
  | { readonly do: 'outputInPort' }
  /** The NORMAL action, a learning switch: floods frames for unknown addresses. */
  | { readonly do: 'normal' }
  /** Sends a copy to the agent, at most `bytes` of it, unless it exceeds the meter's rate; the packet itself continues. */
  | ToAgentStep
  | LearnStep;

export interface ToAgentStep {
  readonly do: 'toAgent';
  readonly reason: PipelinePacketInReason;
  readonly meter?: number;
  readonly bytes?: number;
  /** ASCII text for the agent. */
  readonly detail?: string;
}

/**
 * Steps that make OVS add flows. Each step declares them: table, priority, match, actions and cookie follow from the step alone. A flow
 * with a learned flow's cookie that no desired step declares is foreign.
 */
export type LearnStep =
  /** Learns the outer source into table `unknownTunnelPeers`, whose counters show the senders. */
  | { readonly do: 'learnUnknownTunnelPeer'; readonly family: Family }
  | LearnChoice
  /**
   * Learns into table `affinity`, for a few seconds, that later fragments of this client's datagrams to this address get the same endpoint.
   */
  | { readonly do: 'learnFragments'; readonly family: Family }
  | LearnAssociation;

/** Learns into table `affinity` the endpoint of this client at this address and port of a Service. */
export interface LearnChoice {
  readonly do: 'learnChoice';
  readonly family: Family;
  readonly transport: Transport;
  /** Idle time after the client's last new connection (s, up to 65,535); absent: the agent removes the flow. */
  readonly idleSeconds?: number;
  /** Cookie of the owner (`learnedCookieOf`). */
  readonly cookie: bigint;
}

const learnSteps: ReadonlySet<Step['do']> = new Set<LearnStep['do']>([
  'learnChoice',
  'learnFragments',
  'learnAssociation',
  'learnUnknownTunnelPeer',
]);

/** Learns into table `associations` one side of this packet's SCTP association, for a fixed time after the last such packet. */
export interface LearnAssociation {
  readonly do: 'learnAssociation';
  readonly family: Family;
  /** Side whose packets the flow matches: the sender of this packet, or with addresses and ports exchanged the one that replies. */
  readonly side: 'opener' | 'answer';
  /** `letIn`: replies are admitted. `kept`: replies and further packets of the sender are admitted. `barred`: replies are denied. */
  readonly as: 'letIn' | 'kept' | 'barred';
  /** Number of the sender's share of the learned flows, which limits their number. Absent: no limit. */
  readonly share?: number;
}

export function isLearnStep(step: Step): step is LearnStep {
  return learnSteps.has(step.do);
}

export interface Flow {
  readonly table: PipelineTableName;
  readonly priority: number;
  readonly match: Match;
  /** Empty: drop. */
  readonly steps: readonly Step[];
}

/** One bucket of a group. */
export interface Bucket {
  readonly weight: number;
  readonly steps: readonly Step[];
  /** Pattern of the steps, if they have one: then the steps need not be read. */
  readonly from?: { readonly pattern: StepsPattern; readonly place: TransportAddress };
}

/** Values that may differ between flows, or steps, of one pattern. */
export interface TransportAddress {
  readonly ip: Ip;
  readonly port: number;
}

/**
 * Steps that differ only in an address and a port. Pure. Addresses of one family give the same steps, in which address and port appear
 * unchanged, with contiguous bytes or in registers of their own.
 */
export type StepsPattern = (place: TransportAddress) => readonly Step[];

/** Bucket whose steps are compiled only when they are read: a node has a hundred thousand of them. */
export class PatternBucket implements Bucket {
  readonly weight: number;
  readonly from: { readonly pattern: StepsPattern; readonly place: TransportAddress };

  constructor(weight: number, pattern: StepsPattern, place: TransportAddress) {
    this.weight = weight;
    this.from = { pattern, place };
  }

  get steps(): readonly Step[] {
    return this.from.pattern(this.from.place);
  }
}

/**
 * Group of type `select`: OVS chooses a bucket in proportion to the weights, with a hash of the connection that the data path computes
 * (`dp_hash`).
 */
export interface Group {
  readonly id: number;
  readonly buckets: readonly Bucket[];
}

/** Meter with one drop band. */
export interface Meter {
  readonly id: number;
  /** Absent: kilobits, of whole Ethernet frames. */
  readonly unit?: 'packets';
  /** Rate in units per second. */
  readonly rate: number;
  /** Burst size in units. */
  readonly burst: number;
}

export const load = (mark: Mark): Step => ({ do: 'load', mark });
export const group = (id: number): Step => ({ do: 'group', group: id });
export const meter = (id: number): Step => ({ do: 'meter', meter: id });
export const goto = (table: PipelineTableName): Step => ({ do: 'goto', table });
export const resubmit = (table: PipelineTableName): Step => ({ do: 'resubmit', table });
export const resubmitAsOpened = (table: PipelineTableName): Step => ({ do: 'resubmit', table, by: 'originalTuple' });
export const output = (port: number): Step => ({ do: 'output', port });
export const drop: readonly Step[] = [];
