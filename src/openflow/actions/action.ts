import type { FieldName, FieldValue, Subfield } from '../match/fields.ts';

/**
 * Effect of a flow or a bucket on a packet. Numbers are host numbers, not wire bytes; ports are the 32-bit numbers of OpenFlow 1.1 and
 * later, also where the wire carries 16 bits. Names follow ovs-actions(7).
 *
 * An absent optional member means the same as leaving it out of the `ovs-ofctl` text.
 */
export type Action =
  /** `maxLength`: bytes of the packet for the port CONTROLLER, 0xffff for all. Other ports ignore it. */
  | { readonly kind: 'output'; readonly port: number; readonly maxLength?: number }
  /** Outputs to the port whose number is in a register. */
  | { readonly kind: 'outputRegister'; readonly from: Subfield; readonly maxLength: number }
  /** Outputs the first `maxLength` bytes only. */
  | { readonly kind: 'outputTruncated'; readonly port: number; readonly maxLength: number }
  | { readonly kind: 'group'; readonly group: number }
  | { readonly kind: 'meter'; readonly meter: number }
  | SetFieldAction
  /** Another form of a masked `setField`; the switch always dumps it as `setField`. */
  | { readonly kind: 'load'; readonly to: Subfield; readonly value: number | bigint }
  | { readonly kind: 'move'; readonly from: Subfield; readonly to: Subfield }
  | ResubmitAction
  | CtAction
  | { readonly kind: 'ctClear' }
  | LearnAction
  /** Clauses count from 1. */
  | { readonly kind: 'conjunction'; readonly id: number; readonly clause: number; readonly of: number }
  | ControllerAction
  | { readonly kind: 'decTtl' }
  /** Like `decTtl`, but notifies these controllers when the TTL expires. */
  | { readonly kind: 'decTtlControllers'; readonly controllers: readonly number[] }
  | { readonly kind: 'setTtl'; readonly ttl: number }
  | { readonly kind: 'pushVlan'; readonly etherType: number }
  | { readonly kind: 'popVlan' }
  /** The wire pads it with zeros to 6 bytes, or 6 and a multiple of 8. */
  | { readonly kind: 'note'; readonly bytes: Uint8Array }
  | { readonly kind: 'clone'; readonly actions: readonly Action[] }
  | SampleAction
  | { readonly kind: 'checkPacketLarger'; readonly bytes: number; readonly to: Subfield }
  | { readonly kind: 'push'; readonly from: Subfield }
  | { readonly kind: 'pop'; readonly to: Subfield }
  | { readonly kind: 'setQueue'; readonly queue: number }
  | { readonly kind: 'popQueue' }
  | { readonly kind: 'finTimeout'; readonly idleTimeout: number; readonly hardTimeout: number }
  | { readonly kind: 'exit' }
  | { readonly kind: 'pushMpls'; readonly etherType: number }
  /** `etherType` of the packet below the label. */
  | { readonly kind: 'popMpls'; readonly etherType: number }
  | { readonly kind: 'setMplsTtl'; readonly ttl: number }
  | { readonly kind: 'decMplsTtl' }
  /** From the next header to the outermost. Open vSwitch supports none of these four actions. */
  | { readonly kind: 'copyTtlOut' }
  | { readonly kind: 'copyTtlIn' }
  | { readonly kind: 'pushPbb'; readonly etherType: number }
  | { readonly kind: 'popPbb' }
  | { readonly kind: 'decNshTtl' }
  /** `packetType`: 0 Ethernet, 0x0001894f NSH, 0x00018847 MPLS. `properties` in wire form. */
  | { readonly kind: 'encap'; readonly packetType: number; readonly properties: Uint8Array }
  /** `packetType` of the inner packet; absent to derive it from the header. */
  | { readonly kind: 'decap'; readonly packetType?: number }
  /** Removes a tunnel option. */
  | { readonly kind: 'deleteField'; readonly field: FieldName }
  | MultipathAction
  | BundleMembersAction
  | UnknownAction;

export type SetFieldAction = { readonly [F in FieldName]: SetField<F> }[FieldName];

interface SetField<F extends FieldName> {
  readonly kind: 'setField';
  readonly field: F;
  readonly value: FieldValue<F>;
  /** Bits to change; absent for all. */
  readonly mask?: FieldValue<F>;
}

export interface ResubmitAction {
  readonly kind: 'resubmit';
  /** Absent: the packet's own in-port. */
  readonly port?: number;
  /** Absent: the table of the flow. */
  readonly table?: number;
  /** Uses the fields of the connection's original direction for the lookup. */
  readonly withTracked?: true;
}

export interface CtAction {
  readonly kind: 'ct';
  readonly commit: boolean;
  readonly force?: true;
  readonly zone: number | Subfield;
  /** Table that receives the tracked packet; absent to not fork the packet. */
  readonly table?: number;
  readonly nat?: NatAction;
  /** Well-known port of the helper: 21 ftp, 69 tftp. */
  readonly alg?: number;
  readonly exec: readonly Action[];
}

export interface NatAction {
  /** Absent: translate as the existing connection does. */
  readonly direction?: 'src' | 'dst';
  /** Range; `last` is absent for a single address. */
  readonly addresses?:
    | { readonly family: 'ipv4'; readonly first: number; readonly last?: number }
    | { readonly family: 'ipv6'; readonly first: bigint; readonly last?: bigint };
  readonly ports?: { readonly first: number; readonly last?: number };
  readonly persistent?: true;
  readonly hash?: true;
  readonly random?: true;
}

export interface LearnAction {
  readonly kind: 'learn';
  readonly table: number;
  readonly idleTimeout?: number;
  readonly hardTimeout?: number;
  readonly priority: number;
  readonly cookie: bigint;
  readonly finIdleTimeout?: number;
  readonly finHardTimeout?: number;
  readonly sendFlowRemoved?: true;
  readonly deleteLearned?: true;
  /** Maximum number of learned flows in the table. */
  readonly limit?: number;
  /** Bit that receives 1 if the flow could be learned, else 0. */
  readonly result?: Subfield;
  readonly specs: readonly LearnSpec[];
}

/** Part of a learned flow: a match, a load, or an output. `from` is a field or a constant. */
export type LearnSpec =
  | { readonly do: 'match'; readonly to: Subfield; readonly from: Subfield | number | bigint }
  | { readonly do: 'load'; readonly to: Subfield; readonly from: Subfield | number | bigint }
  | { readonly do: 'output'; readonly from: Subfield };

export interface ControllerAction {
  readonly kind: 'controller';
  /** Number of bytes of the packet to send; absent for all. */
  readonly maxLength?: number;
  readonly controller?: number;
  readonly reason?: PacketInReason;
  /** Returned in the packet-in (`NXT_PACKET_IN2`). */
  readonly userdata?: Uint8Array;
  /** Stops the packet here until the controller resumes it. */
  readonly pause?: true;
  readonly meter?: number;
}

/** Reason for which a packet is sent to a controller. Source: OpenFlow 1.5.1 `ofp_packet_in_reason`. */
export const packetInReasons = ['noMatch', 'action', 'invalidTtl', 'actionSet', 'group', 'packetOut'] as const;
export type PacketInReason = (typeof packetInReasons)[number];

export interface SampleAction {
  readonly kind: 'sample';
  /** Probability, out of 65535. */
  readonly probability: number;
  readonly collectorSet: number;
  readonly domain: number;
  readonly point: number;
  readonly samplingPort?: number;
  readonly direction?: 'ingress' | 'egress';
}

/** Fields that a packet is hashed over. Source: Open vSwitch `nx_hash_fields`. */
export const hashFields = ['eth_src', 'symmetric_l4', 'symmetric_l3l4', 'symmetric_l3l4+udp', 'nw_src', 'nw_dst', 'symmetric_l3'] as const;
export type HashFields = (typeof hashFields)[number];

export const multipathAlgorithms = ['modulo_n', 'hash_threshold', 'hrw', 'iter_hash'] as const;
export type MultipathAlgorithm = (typeof multipathAlgorithms)[number];

/** Writes the number of a link, from 0, to a field. */
export interface MultipathAction {
  readonly kind: 'multipath';
  readonly fields: HashFields;
  readonly basis: number;
  readonly algorithm: MultipathAlgorithm;
  readonly links: number;
  readonly argument: number;
  readonly to: Subfield;
}

export const memberAlgorithms = ['active_backup', 'hrw'] as const;
export type MemberAlgorithm = (typeof memberAlgorithms)[number];

/** `bundle`, or with `to` `bundle_load`: selects one of the ports that are up. */
export interface BundleMembersAction {
  readonly kind: 'bundleMembers';
  readonly algorithm: MemberAlgorithm;
  readonly fields: HashFields;
  readonly basis: number;
  /** Register that receives the port; absent to output to it. */
  readonly to?: Subfield;
  readonly members: readonly number[];
}

/** Action that this build does not model in full. Kept byte for byte, so that dumps compare exactly. */
export interface UnknownAction {
  readonly kind: 'unknown';
  readonly bytes: Uint8Array;
  /** Known meaning of an action whose bytes differ from those that we would write. Printed; never encoded. */
  readonly means?: KnownAction;
}

export type KnownAction = Exclude<Action, UnknownAction>;
export type ActionOf<K extends KnownAction['kind']> = Extract<KnownAction, { kind: K }>;
