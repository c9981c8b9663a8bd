import type { FieldName, FieldValue, Subfield } from '../match/fields.ts';

/**
 * What a flow or a bucket does to a packet. Numbers are host numbers, not wire bytes; ports are the 32-bit numbers of
 * OpenFlow 1.1 and later, also where the wire carries 16 bits. Names follow ovs-actions(7).
 *
 * An optional member that is absent means what leaving it out of the `ovs-ofctl` text means.
 */
export type Action =
  /** `maxLength`: octets of the packet for the port CONTROLLER, 0xffff for all. Other ports ignore it. */
  | { readonly kind: 'output'; readonly port: number; readonly maxLength?: number }
  /** To the port whose number is in a register. */
  | { readonly kind: 'outputRegister'; readonly from: Subfield; readonly maxLength: number }
  /** The first `maxLength` octets only. */
  | { readonly kind: 'outputTruncated'; readonly port: number; readonly maxLength: number }
  | { readonly kind: 'group'; readonly group: number }
  | { readonly kind: 'meter'; readonly meter: number }
  | SetFieldAction
  /** Another spelling of a masked `setField`: what the switch dumps is always a `setField`. */
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
  /** As `decTtl`, but tells these controllers when it runs out. */
  | { readonly kind: 'decTtlControllers'; readonly controllers: readonly number[] }
  | { readonly kind: 'setTtl'; readonly ttl: number }
  | { readonly kind: 'pushVlan'; readonly etherType: number }
  | { readonly kind: 'popVlan' }
  /** The wire pads it with zeros to 6 octets, or 6 and a multiple of 8. */
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
  /** `etherType` of what was below the label. */
  | { readonly kind: 'popMpls'; readonly etherType: number }
  | { readonly kind: 'setMplsTtl'; readonly ttl: number }
  | { readonly kind: 'decMplsTtl' }
  /** From the next header to the outermost; Open vSwitch has none of the four. */
  | { readonly kind: 'copyTtlOut' }
  | { readonly kind: 'copyTtlIn' }
  | { readonly kind: 'pushPbb'; readonly etherType: number }
  | { readonly kind: 'popPbb' }
  | { readonly kind: 'decNshTtl' }
  /** `packetType`: 0 Ethernet, 0x0001894f NSH, 0x00018847 MPLS. `properties` in wire form. */
  | { readonly kind: 'encap'; readonly packetType: number; readonly properties: Uint8Array }
  /** `packetType` of what comes out; absent to take what the header says. */
  | { readonly kind: 'decap'; readonly packetType?: number }
  /** Takes a tunnel option off. */
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
  /** Look up with the fields of the connection's original direction. */
  readonly withTracked?: true;
}

export interface CtAction {
  readonly kind: 'ct';
  readonly commit: boolean;
  readonly force?: true;
  readonly zone: number | Subfield;
  /** Table that sees the packet again once it is tracked; absent to fork no packet. */
  readonly table?: number;
  readonly nat?: NatAction;
  /** The well-known port of the helper: 21 ftp, 69 tftp. */
  readonly alg?: number;
  readonly exec: readonly Action[];
}

export interface NatAction {
  /** Absent: translate as the connection already is. */
  readonly direction?: 'src' | 'dst';
  /** A range; `last` is absent if there is one address. */
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
  /** At most so many learned flows in the table. */
  readonly limit?: number;
  /** A bit that tells whether the flow could be learned. */
  readonly result?: Subfield;
  readonly specs: readonly LearnSpec[];
}

/** What goes into a learned flow: something it matches, a load, or an output. `from` is a field or a constant. */
export type LearnSpec =
  | { readonly do: 'match'; readonly to: Subfield; readonly from: Subfield | number | bigint }
  | { readonly do: 'load'; readonly to: Subfield; readonly from: Subfield | number | bigint }
  | { readonly do: 'output'; readonly from: Subfield };

export interface ControllerAction {
  readonly kind: 'controller';
  /** Octets of the packet; absent for all. */
  readonly maxLength?: number;
  readonly controller?: number;
  readonly reason?: PacketInReason;
  /** Handed back in the packet-in (`NXT_PACKET_IN2`). */
  readonly userdata?: Uint8Array;
  /** Stop here until the controller resumes the packet. */
  readonly pause?: true;
  readonly meter?: number;
}

/** Why a packet went to a controller. Source: OpenFlow 1.5.1 `ofp_packet_in_reason`. */
export const packetInReasons = ['noMatch', 'action', 'invalidTtl', 'actionSet', 'group', 'packetOut'] as const;
export type PacketInReason = (typeof packetInReasons)[number];

export interface SampleAction {
  readonly kind: 'sample';
  /** Of 65535. */
  readonly probability: number;
  readonly collectorSet: number;
  readonly domain: number;
  readonly point: number;
  readonly samplingPort?: number;
  readonly direction?: 'ingress' | 'egress';
}

/** What a packet is hashed over. Source: Open vSwitch `nx_hash_fields`. */
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

/** `bundle`, or with `to` `bundle_load`: one of the ports that are up. */
export interface BundleMembersAction {
  readonly kind: 'bundleMembers';
  readonly algorithm: MemberAlgorithm;
  readonly fields: HashFields;
  readonly basis: number;
  /** Where the port goes; absent to output there. */
  readonly to?: Subfield;
  readonly members: readonly number[];
}

/** An action that this build does not model in full. Kept byte for byte, so that a dump compares exactly. */
export interface UnknownAction {
  readonly kind: 'unknown';
  readonly bytes: Uint8Array;
  /** What it does, if that is known and only its bytes are not those that we would write. Printed; never encoded. */
  readonly means?: KnownAction;
}

export type KnownAction = Exclude<Action, UnknownAction>;
export type ActionOf<K extends KnownAction['kind']> = Extract<KnownAction, { kind: K }>;
