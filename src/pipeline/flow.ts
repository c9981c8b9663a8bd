import type { Cidr, Family, Ip } from '../net/ip.ts';
import type { Mac } from '../net/mac.ts';
import type { BitRange, Mark } from './registers.ts';
import type { TableName } from './tables.ts';
import type { PacketInReason } from './well-known.ts';

/** Higher wins. Gaps only here, so that two flows never fight by accident. */
export const priority = {
  miss: 0,
  lowest: 100,
  low: 190,
  normal: 200,
  high: 210,
  higher: 220,
  highest: 230,
  override: 240,
  guard: 250,
} as const;

export type Transport = 'tcp' | 'udp' | 'sctp';

/** Bits of `ct_state` that we match; each may be required set (`+`) or clear (`-`). Source: ovs-fields(7) "ct_state". */
export type CtState = 'new' | 'est' | 'rel' | 'rpl' | 'inv' | 'trk' | 'snat' | 'dnat';

/** `any` matches both families of ICMP's own protocol only where the flow names its family. */
export type Protocol = Transport | 'icmp' | 'icmp6' | 'gre';

/** What the Ethernet frame carries. */
export type Payload = Family | 'arp';

/** Header fields a flow may look at. Each at most once, which is why this is a record and not a list. */
export interface Match {
  readonly inPort?: number;
  readonly ethSrc?: Mac;
  readonly ethDst?: Mac;
  /** Only tagged frames. A flow without this field matches both kinds. */
  readonly vlan?: 'tagged';
  readonly payload?: Payload;
  readonly protocol?: Protocol;
  readonly ipSrc?: Ip | Cidr;
  readonly ipDst?: Ip | Cidr;
  readonly portDst?: number;
  /** Of FIN, SYN, RST, PSH, ACK and URG this one alone: what opens a connection, and what ends one that nobody knows. */
  readonly tcpFlags?: 'syn' | 'rst';
  /** Source ports that have these bits, which is how a Service is shared out over several groups. */
  readonly portSrc?: Bits;
  /** Pieces of datagrams. Of those, only the first has ports. */
  readonly fragment?: 'yes';
  /** As the tracker saw the connection's first packet, whole: of its pieces, only the first shows them. Tracked packets only. */
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
  readonly ctState?: Partial<Readonly<Record<CtState, '+' | '-'>>>;
  readonly ctMarks?: readonly Mark[];
  readonly regs?: readonly Mark[];
}

/** A value under a mask. */
export interface Bits {
  readonly value: number;
  readonly mask: number;
}

/** Source or destination translation. `restore` applies whatever the connection was committed with. */
export type Nat =
  | { readonly kind: 'restore' }
  | { readonly kind: 'dst'; readonly ip: Ip; readonly port?: number }
  | { readonly kind: 'src'; readonly ip: Ip };

/** What is written into the connection when it is committed. */
export type CtExec =
  | { readonly do: 'mark'; readonly mark: Mark }
  | { readonly do: 'moveToMark'; readonly from: BitRange; readonly to: BitRange };

export interface CtStep {
  readonly do: 'ct';
  readonly zone: number;
  readonly commit: boolean;
  /** The table where the tracked packet goes on. */
  readonly next: TableName;
  readonly nat?: Nat;
  readonly exec: readonly CtExec[];
}

export type Step =
  | { readonly do: 'load'; readonly mark: Mark }
  | { readonly do: 'setEthSrc'; readonly mac: Mac }
  | { readonly do: 'setEthDst'; readonly mac: Mac }
  | { readonly do: 'setTunSrc'; readonly ip: Ip }
  | { readonly do: 'setTunDst'; readonly ip: Ip }
  | { readonly do: 'decTtl' }
  /** Turns an ARP request into the answer "`ip` is at `mac`" and sends it back. */
  | { readonly do: 'answerArp'; readonly mac: Mac; readonly ip: Ip }
  | CtStep
  | { readonly do: 'group'; readonly group: number }
  /** Drops what comes faster than the meter allows. First of a flow's steps, or it would count what other steps made of the packet. */
  | { readonly do: 'meter'; readonly meter: number }
  | { readonly do: 'resubmit'; readonly table: TableName }
  | { readonly do: 'goto'; readonly table: TableName }
  | { readonly do: 'output'; readonly port: number }
  | { readonly do: 'outputToRegister' }
  | { readonly do: 'outputInPort' }
  /** Learning-switch behaviour: floods what has no known owner. */
  | { readonly do: 'normal' }
  | { readonly do: 'toAgent'; readonly reason: PacketInReason }
  /** Remembers the outer source in table `strangers`, so that its counter shows who sends. */
  | { readonly do: 'learnStranger'; readonly family: Family }
  | LearnChoice
  /** Remembers in table `affinity`, for a moment, that later pieces of this client's datagrams to this address get what this one has. */
  | { readonly do: 'learnPieces'; readonly family: Family };

/** Remembers in table `affinity` which endpoint this client has at this address and port of a Service. */
export interface LearnChoice {
  readonly do: 'learnChoice';
  readonly family: Family;
  readonly transport: Transport;
  /** How long after the client's last new connection it is forgotten (s, up to 65,535); absent: the agent forgets it. */
  readonly idleSeconds?: number;
  /** Says whose it is (`learnedCookieOf`). */
  readonly cookie: bigint;
}

export interface Flow {
  readonly table: TableName;
  readonly priority: number;
  readonly match: Match;
  /** Empty means drop. */
  readonly steps: readonly Step[];
}

/** One way a group may send a connection. */
export interface Bucket {
  readonly weight: number;
  readonly steps: readonly Step[];
}

/** A `select` group: OVS picks a bucket in proportion to the weights, by a hash of the connection that the data path computes (`dp_hash`). */
export interface Group {
  readonly id: number;
  readonly buckets: readonly Bucket[];
}

/** Lets through what comes at its rate, and drops the rest. */
export interface Meter {
  readonly id: number;
  /** Kilobits a second, of whole Ethernet frames. */
  readonly rate: number;
  /** Kilobits that may come at once after a pause. */
  readonly burst: number;
}

export const load = (mark: Mark): Step => ({ do: 'load', mark });
export const group = (id: number): Step => ({ do: 'group', group: id });
export const meter = (id: number): Step => ({ do: 'meter', meter: id });
export const goto = (table: TableName): Step => ({ do: 'goto', table });
export const resubmit = (table: TableName): Step => ({ do: 'resubmit', table });
export const output = (port: number): Step => ({ do: 'output', port });
export const drop: readonly Step[] = [];
