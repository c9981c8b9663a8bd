import type { ConnectionPolicyView } from './policy.ts';

/** Path of one packet through a node. */
export interface NodeTrace {
  readonly node: string;
  /** One for each address family that both ends have. */
  readonly traces: readonly FamilyTrace[];
}

export interface FamilyTrace {
  readonly family: 'ipv4' | 'ipv6';
  /** The packet as its sender sends it. */
  readonly packet: TracedPacket;
  /** Kind of the Service's address by which a host outside reaches it: `load balancer address`, `external IP` or `node port`. */
  readonly way?: string;
  /** Name of the sender and of the receiver, as far as this node knows them. */
  readonly from: string;
  readonly to: string;
  /** Assumption about connection tracking. */
  readonly connection: 'new' | 'established';
  /** Only for an established one. */
  readonly known?: TracedConnection;
  /** Paths on the bridge. There are several if the choice of an endpoint makes a difference. */
  readonly paths: readonly TracePath[];
  /** Number of endpoints whose paths were not computed. */
  readonly moreEndpoints: number;
  /** Absent if no group of flows chooses an endpoint: there is one, or the client keeps its own. */
  readonly choice?: EndpointChoice;
  /** Time to read the bridge (ms). */
  readonly milliseconds: number;
}

/** Number of endpoints among which flows choose. */
export interface EndpointChoice {
  /** Those for the packet; if its source port was not asked for, for packets with any source port. */
  readonly endpoints: number;
  /** Further ones for packets with other source ports: the endpoints of a large Service are in several groups. */
  readonly ofOtherSourcePorts: number;
}

/** Where the connection of a later packet is known from, on one node. */
export interface TracedConnection {
  readonly from: 'flow log' | 'tracker' | 'assumption';
  /** Port of the sender; absent if the connection is assumed, or its protocol has no ports. */
  readonly sourcePort?: number;
  /** Endpoint of the Service, `address:port`. */
  readonly endpoint?: string;
  /** Time of its first packet (RFC 3339), from the flow log. */
  readonly openedAt?: string;
  /** Why it is assumed, or what is not known of it. */
  readonly note?: string;
}

export interface TracedPacket {
  readonly protocol: string;
  readonly source: string;
  readonly sourcePort?: number;
  readonly destination: string;
  readonly destinationPort?: number;
  readonly ttl: number;
  /** Outer addresses, in the tunnel. */
  readonly tunnel?: { readonly source: string; readonly destination: string };
}

export interface TracePath {
  /** Endpoints that give this path, `address:port`; empty if no Service translates the packet. */
  readonly endpoints: readonly string[];
  readonly hops: readonly TraceHop[];
  /** Result of the flows that are installed in OVS. */
  readonly bridge: TraceOutcome;
  /** Result of the flows that the agent wants. */
  readonly desired: TraceOutcome;
  /** Decision of policies, as far as this node decides; absent if neither end is a pod of this node. */
  readonly policy?: ConnectionPolicyView;
  /** First hop at which these differ. */
  readonly difference?: TraceDifference;
}

/** Visit to one table. */
export interface TraceHop {
  readonly table: string;
  /** Sentence about it; empty if the table only passes the packet on. */
  readonly text: string;
  /** Flow that applied, in the syntax of ovs-ofctl; null if none matched. */
  readonly flow: string | null;
  readonly owner: string | null;
}

export interface TraceOutcome {
  /**
   * `pod`: delivered to a pod of this node. `tunnel`: sent to another node. `node`: given to the node's kernel, which routes it on.
   * `answered`: given to the agent, which answers the sender. `unreadable`: a flow cannot be interpreted.
   */
  readonly what: 'pod' | 'tunnel' | 'node' | 'answered' | 'dropped' | 'unreadable';
  /** Pod, node, or reason. */
  readonly to: string;
  /** The packet as it leaves. */
  readonly packet: TracedPacket;
  /** Where and why a packet ended. */
  readonly drop?: TraceDrop;
  /** How the node's kernel sends the packet to another node; only with `node`. */
  readonly onward?: TraceOnward;
}

/** Way to another node without the bridge's tunnel, or back to the bridge of the same node. */
export interface TraceOnward {
  readonly node: string;
  /** `blocked`: dropped, because it would not be encrypted. `service`: to the bridge of the same node again, for a node port. */
  readonly mode: 'direct' | 'wireguard' | 'blocked' | 'service';
  /** Absent where the network between the nodes routes pods' addresses. */
  readonly device?: string;
  /** Source address that the kernel gives to the packet; absent: it keeps its own. */
  readonly source?: string;
}

export interface TraceDrop {
  readonly table: string;
  /** Name of the drop, as `seinectl drops` lists it. */
  readonly name: string;
  readonly message: string;
  readonly cause: string;
  readonly remedy: string;
  /** Number of packets that the flow of the drop has counted; null if unknown. */
  readonly packets: string | null;
}

/** Hop at which the installed flows do not do what the agent wants. */
export interface TraceDifference {
  readonly table: string;
  readonly desired: string | null;
  readonly bridge: string | null;
  readonly owner: string | null;
}

/** End of a probe on one node: like the result of flows, as the data path had it. */
export interface ProbeEnd extends TraceOutcome {
  readonly table: string;
}

/** Probe that this node sent in the name of one of its pods, of itself, or of a host outside. */
export interface SentProbe {
  readonly family: 'ipv4' | 'ipv6';
  /** Twelve bits, by which the next node recognizes it. */
  readonly number: number;
  /** The packet as it was sent. */
  readonly packet: TracedPacket;
  /** Size of the IP packet, if it was to be as large as those of pods. */
  readonly bytes?: number;
  /** End on this node; null if it did not end at a known place within the time limit. */
  readonly end: ProbeEnd | null;
  /** Remarks, as sentences. */
  readonly notes: readonly string[];
  /** True if no probe can take the path of such packets; the notes have the reason. */
  readonly unsent?: true;
  readonly milliseconds: number;
}

export interface NodeProbes {
  readonly node: string;
  readonly probes: readonly SentProbe[];
}

/** End of another node's probe on this one; null if it did not arrive within the time limit. */
export interface SeenProbe {
  readonly node: string;
  readonly end: ProbeEnd | null;
}

/** Connection that the agent opened from a socket of a pod. */
export interface PodAttempt {
  readonly family: 'ipv4' | 'ipv6';
  readonly from: string;
  readonly to: string;
  /** Absent for an echo. */
  readonly port?: number;
  /** `answered`: an echo. `prohibited`: an ICMP error reports that it is denied, or that the receiver is not reachable. */
  readonly outcome: 'connected' | 'answered' | 'refused' | 'timed out' | 'no route' | 'prohibited';
  readonly milliseconds: number;
}

export interface NodeAttempts {
  readonly node: string;
  readonly attempts: readonly PodAttempt[];
}

/** Number of packets that ended at one place of the bridge, for one reason. */
export interface DropCounter extends Omit<TraceDrop, 'packets'> {
  /** Since the flows were installed; may exceed 2^53. */
  readonly packets: string;
}
