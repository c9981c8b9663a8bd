import { duration } from '../flows/layout-flow.ts';
import {
  byVersion,
  framed,
  joined,
  type Layout,
  list,
  mapped,
  oneOf,
  properties,
  record,
  text,
  u8,
  u16,
  u32,
  u48,
  u64,
  zeros,
} from '../layout.ts';
import { portReasons } from '../port.ts';

/** Features of an Ethernet port: bits of `ofp_port_features`, and speeds in kbit/s. */
export interface EthernetFeatures {
  readonly current: number;
  readonly advertised: number;
  readonly supported: number;
  readonly peer: number;
  readonly currentKbps: number;
  readonly maxKbps: number;
}

export interface PortDescription {
  readonly number: number;
  /** 48-bit Ethernet address. */
  readonly address: number;
  readonly name: string;
  /** Bits of `ofp_port_config`: 1 down, 4 no receive, 0x20 no forward, 0x40 no packet-in. */
  readonly config: number;
  /** Bits of `ofp_port_state`: 1 link down, 2 blocked, 4 live. */
  readonly state: number;
  readonly ethernet?: EthernetFeatures;
  readonly unknownProperties?: Uint8Array;
}

const ethernet = { current: u32, advertised: u32, supported: u32, peer: u32, currentKbps: u32, maxKbps: u32 };
const noEthernet: EthernetFeatures = { current: 0, advertised: 0, supported: 0, peer: 0, currentKbps: 0, maxKbps: 0 };
const tail = { address: u48, _zero: zeros(2), name: text(16), config: u32, state: u32 };

/** Source: OpenFlow 1.3.5 `ofp_port`. */
const inThirteen: Layout<PortDescription> = mapped(
  record({ number: u32, _zero1: zeros(4), ...tail, ethernet: record(ethernet) }),
  (laid): PortDescription => laid,
  (port) => ({ ...port, ethernet: port.ethernet ?? noEthernet }),
);

/** Source: OpenFlow 1.5.1 `ofp_port`, `ofp_port_desc_prop_ethernet`. */
const inFifteen: Layout<PortDescription> = framed(
  'port description',
  { lengthAt: 4, atLeast: 40 },
  joined(
    record({ number: u32, _length: zeros(4), ...tail }),
    properties({ ethernet: { type: 0, layout: record({ _zero: zeros(4), ...ethernet }) } }),
  ),
);

const portDescription = byVersion(inThirteen, inFifteen);

/** Source: `ofp_port_status` (u8 reason, 7 zero, port). */
export const portStatus = record({ reason: oneOf(u8, portReasons), _zero: zeros(7), port: portDescription });

export interface PortMod {
  readonly port: number;
  readonly address: number;
  /** Bits of `ofp_port_config` to set, and a mask of those to change. */
  readonly config: number;
  readonly mask: number;
  /** Bits of `ofp_port_features`; absent to leave them unchanged. */
  readonly advertise?: number;
  readonly unknownProperties?: Uint8Array;
}

const portModHead = { port: u32, _zero1: zeros(4), address: u48, _zero2: zeros(2), config: u32, mask: u32 };

/** Source: OpenFlow 1.3.5 and 1.5.1 `ofp_port_mod`. In 1.3 advertising nothing means no change. */
export const portMod: Layout<PortMod> = byVersion(
  mapped(
    record({ ...portModHead, advertise: u32, _zero3: zeros(4) }),
    ({ advertise, ...laid }): PortMod => (advertise === 0 ? laid : { ...laid, advertise }),
    (mod) => ({ ...mod, advertise: mod.advertise ?? 0 }),
  ),
  joined(record(portModHead), properties({ advertise: { type: 0, layout: u32 } })),
);

export interface PortCounters {
  readonly port: number;
  readonly durationNs: bigint;
  readonly rxPackets: bigint;
  readonly txPackets: bigint;
  readonly rxBytes: bigint;
  readonly txBytes: bigint;
  readonly rxDropped: bigint;
  readonly txDropped: bigint;
  readonly rxErrors: bigint;
  readonly txErrors: bigint;
  readonly ethernet?: EthernetErrors;
  readonly unknownProperties?: Uint8Array;
}

export interface EthernetErrors {
  readonly frame: bigint;
  readonly overrun: bigint;
  readonly crc: bigint;
  readonly collisions: bigint;
}

const traffic = {
  rxPackets: u64,
  txPackets: u64,
  rxBytes: u64,
  txBytes: u64,
  rxDropped: u64,
  txDropped: u64,
  rxErrors: u64,
  txErrors: u64,
};
const ethernetErrors = { frame: u64, overrun: u64, crc: u64, collisions: u64 };
const noErrors: EthernetErrors = { frame: 0n, overrun: 0n, crc: 0n, collisions: 0n };

/** Source: OpenFlow 1.3.5 and 1.5.1 `ofp_port_stats`, `ofp_port_stats_prop_ethernet`. */
export const portCounters: Layout<PortCounters> = byVersion(
  mapped(
    record({ port: u32, _zero: zeros(4), ...traffic, ethernet: record(ethernetErrors), durationNs: duration }),
    (laid): PortCounters => laid,
    (counters) => ({ ...counters, ethernet: counters.ethernet ?? noErrors }),
  ),
  framed(
    'port statistics',
    { lengthAt: 0, atLeast: 80 },
    joined(
      record({ _length: zeros(4), port: u32, durationNs: duration, ...traffic }),
      properties({ ethernet: { type: 0, layout: record({ _zero: zeros(4), ...ethernetErrors }) } }),
    ),
  ),
);

export interface QueueCounters {
  readonly port: number;
  readonly queue: number;
  readonly txBytes: bigint;
  readonly txPackets: bigint;
  readonly txErrors: bigint;
  readonly durationNs: bigint;
  readonly unknownProperties?: Uint8Array;
}

const queueCounted = { port: u32, queue: u32, txBytes: u64, txPackets: u64, txErrors: u64, durationNs: duration };

/** Source: OpenFlow 1.3.5 and 1.5.1 `ofp_queue_stats`. */
export const queueCounters: Layout<QueueCounters> = byVersion<QueueCounters>(
  record(queueCounted),
  framed('queue statistics', { lengthAt: 0, atLeast: 48 }, joined(record({ _length: zeros(8), ...queueCounted }), properties({}))),
);

/** Rates in tenths of a percent; above 1000 means no rate. Source: OpenFlow 1.5.1 `ofp_queue_desc`, `ofp_queue_desc_prop_type`. */
export const queueDescription = framed(
  'queue description',
  { lengthAt: 8, atLeast: 16 },
  joined(
    record({ port: u32, queue: u32, _length: zeros(8) }),
    properties({
      minRate: { type: 1, layout: record({ rate: u16, _zero: zeros(2) }) },
      maxRate: { type: 2, layout: record({ rate: u16, _zero: zeros(2) }) },
    }),
  ),
);

export const portDescriptions = list(portDescription);
