import { type FlowMod, readFlowModBody, writeFlowModBody } from '../flows/flow-mod.ts';
import { flowRemovedReasons } from '../flows/flow-removed.ts';
import { duration, matchBytes, type Statistics, statistics } from '../flows/layout-flow.ts';
import {
  type Group,
  type GroupMod,
  readGroupDescription,
  readGroupMod,
  writeGroupDescription,
  writeGroupModBody,
} from '../groups/group.ts';
import { byVersion, framed, type Layout, mapped, oneOf, record, rest, u8, u16, u32, u64, zeros } from '../layout.ts';
import { type Meter, type MeterMod, meterCommands, readBands, writeBands } from '../meter.ts';

/** Source: `ofp_flow_mod`; the same bytes in both versions, with matches and instructions that differ. */
export const flowMod: Layout<FlowMod> = { read: (r) => readFlowModBody(r), write: (w, mod) => writeFlowModBody(w, mod) };

/** Source: OpenFlow 1.3.5 and 1.5.1 `ofp_group_mod`. */
export const groupMod: Layout<GroupMod> = { read: readGroupMod, write: writeGroupModBody };

/** Source: OpenFlow 1.3.5 and 1.5.1 `ofp_group_desc`. */
export const groupDescription: Layout<Group> = { read: readGroupDescription, write: writeGroupDescription };

const bands: Layout<Meter['bands']> = { read: readBands, write: writeBands };

/** Source: `ofp_meter_mod`. */
export const meterMod: Layout<MeterModBody> = record({ command: oneOf(u16, meterCommands), flags: u16, id: u32, bands });

export type MeterModBody = Omit<MeterMod, 'command'> & { readonly command: MeterMod['command'] | number };

/** Source: `ofp_meter_config`, in OpenFlow 1.5 `ofp_meter_desc` (u16 length, u16 flags, u32 meter, bands). */
export const meterDescription: Layout<Meter> = framed(
  'meter description',
  { lengthAt: 0, atLeast: 8 },
  record({ _length: zeros(2), flags: u16, id: u32, bands }),
);

const bandCounters = record({ packets: u64, bytes: u64 });

/** Source: `ofp_meter_stats` (u32 meter, u16 length, 6 zero, u32 flows, u64 packets, u64 bytes, duration, bands). */
export const meterCounters = framed(
  'meter statistics',
  { lengthAt: 4, atLeast: 40 },
  record({ id: u32, _length: zeros(8), flows: u32, packets: u64, bytes: u64, durationNs: duration, bands: listOf(bandCounters, 16) }),
);

/** Source: `ofp_group_stats` (u16 length, 2 zero, u32 group, u32 references, 4 zero, u64 packets, u64 bytes, duration, buckets). */
export const groupCounters = framed(
  'group statistics',
  { lengthAt: 0, atLeast: 40 },
  record({
    _length: zeros(4),
    id: u32,
    references: u32,
    _zero: zeros(4),
    packets: u64,
    bytes: u64,
    durationNs: duration,
    buckets: listOf(bandCounters, 16),
  }),
);

function listOf<T>(item: Layout<T>, bytes: number): Layout<readonly T[]> {
  return {
    read: (r, version) => {
      const items: T[] = [];
      while (r.remaining >= bytes) items.push(item.read(r, version));
      return items;
    },
    write: (w, items, version) => {
      for (const each of items) item.write(w, each, version);
    },
  };
}

/** Flow and its statistics, as reported by a switch. `match` and `instructions` are views. */
export interface FlowReport {
  readonly table: number;
  readonly priority: number;
  readonly cookie: bigint;
  readonly idleTimeout: number;
  readonly hardTimeout: number;
  readonly importance: number;
  readonly flags: number;
  readonly match: Uint8Array;
  readonly statistics: Statistics;
  readonly instructions: Uint8Array;
}

const thirteenEntry = record({
  _length: zeros(2),
  table: u8,
  _zero1: zeros(1),
  durationNs: duration,
  priority: u16,
  idleTimeout: u16,
  hardTimeout: u16,
  flags: u16,
  _zero2: zeros(4),
  cookie: u64,
  packets: u64,
  bytes: u64,
  match: matchBytes,
  instructions: rest,
});

/** Source: OpenFlow 1.3.5 `ofp_flow_stats`, OpenFlow 1.5.1 `ofp_flow_desc`. */
export const flowReport: Layout<FlowReport> = byVersion(
  framed(
    'flow statistics',
    { lengthAt: 0, atLeast: 56 },
    mapped(
      thirteenEntry,
      ({ durationNs, packets, bytes, ...flow }): FlowReport => ({ ...flow, importance: 0, statistics: { durationNs, packets, bytes } }),
      ({ statistics: { durationNs = 0n, packets = 0n, bytes = 0n }, ...flow }) => ({ ...flow, durationNs, packets, bytes }),
    ),
  ),
  framed(
    'flow description',
    { lengthAt: 0, atLeast: 32 },
    record({
      _length: zeros(4),
      table: u8,
      _zero: zeros(1),
      priority: u16,
      idleTimeout: u16,
      hardTimeout: u16,
      flags: u16,
      importance: u16,
      cookie: u64,
      match: matchBytes,
      statistics,
      instructions: rest,
    }),
  ),
);

/** Statistics of a flow, without its instructions. Source: OpenFlow 1.5.1 `ofp_flow_stats`. */
export const flowCounters = framed(
  'flow statistics',
  { lengthAt: 0, atLeast: 16 },
  record({ _length: zeros(4), table: u8, reason: u8, priority: u16, match: matchBytes, statistics }),
);

/** Source: `ofp_flow_stats_request`, the same in both versions. */
export const flowFilter = record({
  table: u8,
  _zero1: zeros(3),
  outPort: u32,
  outGroup: u32,
  _zero2: zeros(4),
  cookie: u64,
  cookieMask: u64,
  match: matchBytes,
});

/** Source: OpenFlow 1.3.5 `ofp_aggregate_stats_reply` (u64 packets, u64 bytes, u32 flows, 4 zero); OpenFlow 1.5.1 statistics. */
export const aggregate: Layout<Statistics> = byVersion<Statistics>(
  mapped(
    record({ packets: u64, bytes: u64, flows: u32, _zero: zeros(4) }),
    (laid): Statistics => laid,
    ({ packets = 0n, bytes = 0n, flows = 0 }) => ({ packets, bytes, flows }),
  ),
  statistics,
);

export interface FlowRemovedBody extends Omit<FlowReport, 'instructions' | 'flags' | 'importance'> {
  readonly reason: (typeof flowRemovedReasons)[number] | number;
}

const reason = oneOf(u8, flowRemovedReasons);

/** Source: OpenFlow 1.3.5 and 1.5.1 `ofp_flow_removed`. */
export const flowRemoved: Layout<FlowRemovedBody> = byVersion(
  mapped(
    record({
      cookie: u64,
      priority: u16,
      reason,
      table: u8,
      durationNs: duration,
      idleTimeout: u16,
      hardTimeout: u16,
      packets: u64,
      bytes: u64,
      match: matchBytes,
    }),
    ({ durationNs, packets, bytes, ...flow }): FlowRemovedBody => ({ ...flow, statistics: { durationNs, packets, bytes } }),
    ({ statistics: { durationNs = 0n, packets = 0n, bytes = 0n }, ...flow }) => ({ ...flow, durationNs, packets, bytes }),
  ),
  record({
    table: u8,
    reason,
    priority: u16,
    idleTimeout: u16,
    hardTimeout: u16,
    cookie: u64,
    match: matchBytes,
    statistics,
  }),
);
