import { flowRemovedReasons } from '../flows/flow-removed.ts';
import { duration } from '../flows/layout-flow.ts';
import { joined, type Layout, list, mapped, nothing, oneOf, properties, record, rest, u8, u16, u32, u64, zeros } from '../layout.ts';
import { NICIRA, ONF } from '../protocol.ts';
import { asyncPairs, asyncProperties } from './control.ts';
import { monitorRequest13, monitorUpdates13 } from './monitor.ts';
import { niciraPacketIn, packetIn2 } from './packet.ts';
import { only13, row } from './row.ts';

function nicira(subtype: number) {
  return [{ vendor: NICIRA, subtype }] as const;
}

/** One tunnel option and the number of its `tun_metadata` field. Source: Open vSwitch `nx_tlv_map`. */
const tlvMap = record({ optionClass: u16, optionType: u8, optionBytes: u8, index: u16, _zero: zeros(2) });

/** Bytes of an IPv6 address; IPv4 addresses are mapped into IPv6. */
const tuple = properties({
  src: { type: 0, layout: rest },
  dst: { type: 1, layout: rest },
  srcPort: { type: 2, layout: u16padded() },
  dstPort: { type: 3, layout: u16padded() },
  icmpId: { type: 4, layout: u16padded() },
  icmpType: { type: 5, layout: u8padded() },
  icmpCode: { type: 6, layout: u8padded() },
});
const nestedTuple = mapped(
  record({ _zero: zeros(4), tuple }),
  (laid) => laid.tuple,
  (value) => ({ tuple: value }),
);

function u16padded(): Layout<number> {
  return mapped(
    record({ value: u16, _zero: zeros(2) }),
    ({ value }) => value,
    (value) => ({ value }),
  );
}

function u8padded(): Layout<number> {
  return mapped(
    record({ value: u8, _zero: zeros(3) }),
    ({ value }) => value,
    (value) => ({ value }),
  );
}

/** `tablePlusOne` is 0 if the switch does not report the table. Source: Open vSwitch `nx_flow_removed`. */
const niciraFlowRemoved = record({
  cookie: u64,
  priority: u16,
  reason: oneOf(u8, flowRemovedReasons),
  tablePlusOne: u8,
  durationNs: duration,
  idleTimeout: u16,
  matchBytes: u16,
  packets: u64,
  bytes: u64,
  paddedOxmFields: rest,
});

/** Roles had other names before OpenFlow 1.2. Source: Open vSwitch `nx_role_request`. */
const role = record({ role: oneOf(u32, ['other', 'primary', 'secondary']) });

const ipfixCounted = {
  totalFlows: u64,
  currentFlows: u64,
  packets: u64,
  ipv4Packets: u64,
  ipv6Packets: u64,
  errorPackets: u64,
  ipv4ErrorPackets: u64,
  ipv6ErrorPackets: u64,
  txPackets: u64,
  txErrors: u64,
};
const ipfix = record({ ...ipfixCounted, collectorSet: u32, _zero: zeros(4) });

function niciraPart(subtype: number, kind: 'request' | 'reply') {
  return [{ multipartVendor: NICIRA, subtype, reply: kind === 'reply' }] as const;
}

/** Messages of Open vSwitch, and extensions of 1.3. */
export const niciraRows = {
  setPacketInFormat: row({
    name: 'NXT_SET_PACKET_IN_FORMAT',
    wire: nicira(16),
    source: 'nx_set_packet_in_format',
    layout: record({ format: oneOf(u32, ['standard', 'nxt_packet_in', 'nxt_packet_in2']) }),
  }),
  niciraPacketIn: row({ name: 'NXT_PACKET_IN', wire: nicira(17), source: 'nx_packet_in', layout: niciraPacketIn }),
  packetIn2: row({ name: 'NXT_PACKET_IN2', wire: nicira(30), source: 'nx_packet_in2_prop_type', layout: packetIn2 }),
  resume: row({ name: 'NXT_RESUME', wire: nicira(28), source: 'nx_packet_in2_prop_type', layout: packetIn2 }),
  setControllerId: row({
    name: 'NXT_SET_CONTROLLER_ID',
    wire: nicira(20),
    source: 'nx_controller_id',
    layout: record({ _zero: zeros(6), id: u16 }),
  }),
  niciraSetAsync: row({ name: 'NXT_SET_ASYNC_CONFIG', wire: nicira(19), source: 'nx_async_config', layout: asyncPairs }),
  niciraSetAsync2: row({
    name: 'NXT_SET_ASYNC_CONFIG2',
    wire: [{ vendor: NICIRA, subtype: 27, ...only13 }],
    source: 'ofp_async_config of OpenFlow 1.4',
    layout: asyncProperties,
  }),
  niciraRoleRequest: row({ name: 'NXT_ROLE_REQUEST', wire: nicira(10), source: 'nx_role_request', layout: role }),
  niciraRoleReply: row({ name: 'NXT_ROLE_REPLY', wire: nicira(11), source: 'nx_role_request', layout: role }),
  niciraFlowRemoved: row({
    name: 'NXT_FLOW_REMOVED',
    wire: nicira(14),
    source: 'nx_flow_removed',
    layout: niciraFlowRemoved,
  }),
  flowModTableId: row({
    name: 'NXT_FLOW_MOD_TABLE_ID',
    wire: nicira(15),
    source: 'nx_flow_mod_table_id',
    layout: record({ enable: u8, _zero: zeros(7) }),
  }),
  flowAge: row({ name: 'NXT_FLOW_AGE', wire: nicira(18), source: 'nicira_header', layout: nothing }),
  tlvTableMod: row({
    name: 'NXT_TLV_TABLE_MOD',
    wire: nicira(24),
    source: 'nx_tlv_table_mod',
    layout: record({ command: oneOf(u16, ['add', 'delete', 'clear']), _zero: zeros(6), maps: list(tlvMap) }),
  }),
  tlvTableRequest: row({ name: 'NXT_TLV_TABLE_REQUEST', wire: nicira(25), source: 'nicira_header', layout: nothing }),
  tlvTableReply: row({
    name: 'NXT_TLV_TABLE_REPLY',
    wire: nicira(26),
    source: 'nx_tlv_table_reply',
    layout: record({ maxSpace: u32, maxFields: u16, _zero: zeros(10), maps: list(tlvMap) }),
  }),
  flushZone: row({
    name: 'NXT_CT_FLUSH_ZONE',
    wire: nicira(29),
    source: 'nx_zone_id',
    layout: record({ _zero: zeros(6), zone: u16 }),
  }),
  flushTuple: row({
    name: 'NXT_CT_FLUSH',
    wire: nicira(32),
    source: 'nx_ct_flush, nx_ct_flush_tlv_type',
    layout: joined(
      record({ ipProtocol: u8, _zero: zeros(7) }),
      properties({
        original: { type: 0, layout: nestedTuple },
        reply: { type: 1, layout: nestedTuple },
        zone: { type: 2, layout: u16padded() },
      }),
    ),
  }),
  monitorCancel: row({
    name: 'ONFT_FLOW_MONITOR_CANCEL',
    wire: [{ vendor: ONF, subtype: 1870, ...only13 }],
    source: 'the extension EXT-187 to OpenFlow 1.3',
    layout: record({ id: u32 }),
  }),
  monitorPaused: row({
    name: 'ONFT_FLOW_MONITOR_PAUSED',
    wire: [{ vendor: ONF, subtype: 1871, ...only13 }],
    source: 'EXT-187',
    layout: nothing,
  }),
  monitorResumed: row({
    name: 'ONFT_FLOW_MONITOR_RESUMED',
    wire: [{ vendor: ONF, subtype: 1872, ...only13 }],
    source: 'EXT-187',
    layout: nothing,
  }),
  flowMonitorRequest13: row({
    name: 'ONFST_FLOW_MONITOR',
    wire: [{ multipartVendor: ONF, subtype: 1870, reply: false, ...only13 }],
    source: 'EXT-187',
    layout: monitorRequest13,
  }),
  flowMonitorReply13: row({
    name: 'ONFST_FLOW_MONITOR',
    wire: [{ multipartVendor: ONF, subtype: 1870, reply: true, ...only13 }],
    source: 'EXT-187',
    layout: record({ updates: monitorUpdates13 }),
  }),
  ipfixBridgeRequest: row({ name: 'NXST_IPFIX_BRIDGE', wire: niciraPart(3, 'request'), source: 'nicira_header', layout: nothing }),
  ipfixBridgeReply: row({ name: 'NXST_IPFIX_BRIDGE', wire: niciraPart(3, 'reply'), source: 'nx_ipfix_stats_reply', layout: ipfix }),
  ipfixFlowRequest: row({ name: 'NXST_IPFIX_FLOW', wire: niciraPart(4, 'request'), source: 'nicira_header', layout: nothing }),
  ipfixFlowReply: row({
    name: 'NXST_IPFIX_FLOW',
    wire: niciraPart(4, 'reply'),
    source: 'nx_ipfix_stats_reply',
    layout: record({ sets: list(ipfix) }),
  }),
};
