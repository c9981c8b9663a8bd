import { byVersion, type Layout, list, mapped, nothing, properties, record, rest, text, u8, u16, u32, u64, zeros } from '../layout.ts';
import { multipartType as type } from '../multipart.ts';
import { ofGroup, ofPort } from '../protocol.ts';
import { controllerStatuses } from './control.ts';
import {
  aggregate,
  flowCounters,
  flowFilter,
  flowReport,
  groupCounters,
  groupDescription,
  meterCounters,
  meterDescription,
} from './flow.ts';
import { monitorRequest, monitorUpdates } from './monitor.ts';
import { portCounters, portDescriptions, queueCounters, queueDescription } from './port.ts';
import { only15, part, row } from './row.ts';
import { tableDescription, tableFeatures } from './table.ts';

/** Number without a field in OpenFlow 1.3, which always requests all. */
function since15<N extends string>(name: N, all: number): Layout<Readonly<Record<N, number>>> {
  type Asked = Readonly<Record<N, number>>;
  const asked = mapped(
    record({ value: u32, _zero: zeros(4) }),
    ({ value }) => ({ [name]: value }) as Asked, // the only name
    (body: Asked) => ({ value: body[name] }),
  );
  return byVersion(
    mapped(
      nothing,
      () => ({ [name]: all }) as Asked,
      () => ({}),
    ),
    asked,
  );
}

const meterRequest = record({ meter: u32, _zero: zeros(4) });
const perType = { all: u32, select: u32, indirect: u32, fastFailover: u32 };

/** Statistics requests and the replies of a switch. */
export const statisticsRows = {
  descRequest: row({ name: 'OFPST_DESC', wire: [part(type.desc, 'request')], source: 'ofp_multipart_request', layout: nothing }),
  descReply: row({
    name: 'OFPST_DESC',
    wire: [part(type.desc, 'reply')],
    source: 'ofp_desc',
    layout: record({ manufacturer: text(256), hardware: text(256), software: text(256), serialNumber: text(32), datapath: text(256) }),
  }),
  flowRequest: row({ name: 'OFPST_FLOW', wire: [part(type.flowDesc, 'request')], source: 'ofp_flow_desc_request', layout: flowFilter }),
  flowReply: row({
    name: 'OFPST_FLOW',
    wire: [part(type.flowDesc, 'reply')],
    source: 'ofp_flow_desc; OpenFlow 1.3 ofp_flow_stats',
    layout: record({ flows: list(flowReport) }),
  }),
  flowStatsRequest: row({
    name: 'OFPST_FLOW_STATS',
    wire: [{ ...part(type.flowStats, 'request'), ...only15 }],
    source: 'OpenFlow 1.5.1 ofp_flow_stats_request',
    layout: flowFilter,
  }),
  flowStatsReply: row({
    name: 'OFPST_FLOW_STATS',
    wire: [{ ...part(type.flowStats, 'reply'), ...only15 }],
    source: 'OpenFlow 1.5.1 ofp_flow_stats',
    layout: record({ flows: list(flowCounters) }),
  }),
  aggregateRequest: row({
    name: 'OFPST_AGGREGATE',
    wire: [part(type.aggregate, 'request')],
    source: 'ofp_aggregate_stats_request',
    layout: flowFilter,
  }),
  aggregateReply: row({
    name: 'OFPST_AGGREGATE',
    wire: [part(type.aggregate, 'reply')],
    source: 'ofp_aggregate_stats_reply',
    layout: aggregate,
  }),
  tableStatsRequest: row({
    name: 'OFPST_TABLE',
    wire: [part(type.tableStats, 'request')],
    source: 'ofp_multipart_request',
    layout: nothing,
  }),
  tableStatsReply: row({
    name: 'OFPST_TABLE',
    wire: [part(type.tableStats, 'reply')],
    source: 'ofp_table_stats',
    layout: record({ tables: list(record({ table: u8, _zero: zeros(3), flows: u32, lookups: u64, matches: u64 })) }),
  }),
  portStatsRequest: row({
    name: 'OFPST_PORT',
    wire: [part(type.portStats, 'request')],
    source: 'ofp_port_stats_request',
    layout: record({ port: u32, _zero: zeros(4) }),
  }),
  portStatsReply: row({
    name: 'OFPST_PORT',
    wire: [part(type.portStats, 'reply')],
    source: 'ofp_port_stats',
    layout: record({ ports: list(portCounters) }),
  }),
  queueStatsRequest: row({
    name: 'OFPST_QUEUE',
    wire: [part(type.queueStats, 'request')],
    source: 'ofp_queue_stats_request',
    layout: record({ port: u32, queue: u32 }),
  }),
  queueStatsReply: row({
    name: 'OFPST_QUEUE',
    wire: [part(type.queueStats, 'reply')],
    source: 'ofp_queue_stats',
    layout: record({ queues: list(queueCounters) }),
  }),
  groupStatsRequest: row({
    name: 'OFPST_GROUP',
    wire: [part(type.groupStats, 'request')],
    source: 'ofp_group_stats_request',
    layout: record({ group: u32, _zero: zeros(4) }),
  }),
  groupStatsReply: row({
    name: 'OFPST_GROUP',
    wire: [part(type.groupStats, 'reply')],
    source: 'ofp_group_stats',
    layout: record({ groups: list(groupCounters) }),
  }),
  groupDescRequest: row({
    name: 'OFPST_GROUP_DESC',
    wire: [part(type.groupDesc, 'request')],
    source: 'OpenFlow 1.5.1 ofp_group_desc_request; empty in 1.3',
    layout: since15('group', ofGroup.all),
  }),
  groupDescReply: row({
    name: 'OFPST_GROUP_DESC',
    wire: [part(type.groupDesc, 'reply')],
    source: 'ofp_group_desc',
    layout: record({ groups: list(groupDescription) }),
  }),
  groupFeaturesRequest: row({
    name: 'OFPST_GROUP_FEATURES',
    wire: [part(type.groupFeatures, 'request')],
    source: 'ofp_multipart_request',
    layout: nothing,
  }),
  groupFeaturesReply: row({
    name: 'OFPST_GROUP_FEATURES',
    wire: [part(type.groupFeatures, 'reply')],
    source: 'ofp_group_features; types and actions are sums of 2 ** number',
    layout: record({ types: u32, capabilities: u32, maxGroups: record(perType), actions: record(perType) }),
  }),
  meterStatsRequest: row({
    name: 'OFPST_METER',
    wire: [part(type.meterStats, 'request')],
    source: 'ofp_meter_multipart_request',
    layout: meterRequest,
  }),
  meterStatsReply: row({
    name: 'OFPST_METER',
    wire: [part(type.meterStats, 'reply')],
    source: 'ofp_meter_stats',
    layout: record({ meters: list(meterCounters) }),
  }),
  meterDescRequest: row({
    name: 'OFPST_METER_CONFIG',
    wire: [part(type.meterDesc, 'request')],
    source: 'ofp_meter_multipart_request',
    layout: meterRequest,
  }),
  meterDescReply: row({
    name: 'OFPST_METER_CONFIG',
    wire: [part(type.meterDesc, 'reply')],
    source: 'ofp_meter_desc',
    layout: record({ meters: list(meterDescription) }),
  }),
  meterFeaturesRequest: row({
    name: 'OFPST_METER_FEATURES',
    wire: [part(type.meterFeatures, 'request')],
    source: 'ofp_multipart_request',
    layout: nothing,
  }),
  meterFeaturesReply: row({
    name: 'OFPST_METER_FEATURES',
    wire: [part(type.meterFeatures, 'reply')],
    source: 'ofp_meter_features; followed by features in OpenFlow 1.5.1, which Open vSwitch omits',
    layout: record({ maxMeters: u32, bandTypes: u32, capabilities: u32, maxBands: u8, maxColors: u8, _zero: zeros(2), more: rest }),
  }),
  tableFeaturesRequest: row({
    name: 'OFPST_TABLE_FEATURES',
    wire: [part(type.tableFeatures, 'request')],
    source: 'ofp_table_features; empty to query, otherwise to set',
    layout: record({ tables: list(tableFeatures) }),
  }),
  tableFeaturesReply: row({
    name: 'OFPST_TABLE_FEATURES',
    wire: [part(type.tableFeatures, 'reply')],
    source: 'ofp_table_features',
    layout: record({ tables: list(tableFeatures) }),
  }),
  portDescRequest: row({
    name: 'OFPST_PORT_DESC',
    wire: [part(type.portDesc, 'request')],
    source: 'OpenFlow 1.5.1 ofp_port_multipart_request; empty in 1.3',
    layout: since15('port', ofPort.any),
  }),
  portDescReply: row({
    name: 'OFPST_PORT_DESC',
    wire: [part(type.portDesc, 'reply')],
    source: 'ofp_port',
    layout: record({ ports: portDescriptions }),
  }),
  tableDescRequest: row({
    name: 'OFPST_TABLE_DESC',
    wire: [{ ...part(type.tableDesc, 'request'), ...only15 }],
    source: 'ofp_multipart_request',
    layout: nothing,
  }),
  tableDescReply: row({
    name: 'OFPST_TABLE_DESC',
    wire: [{ ...part(type.tableDesc, 'reply'), ...only15 }],
    source: 'OpenFlow 1.4 ofp_table_desc',
    layout: record({ tables: list(tableDescription) }),
  }),
  queueDescRequest: row({
    name: 'OFPST_QUEUE_DESC',
    wire: [{ ...part(type.queueDesc, 'request'), ...only15 }],
    source: 'OpenFlow 1.4 ofp_queue_desc_request',
    layout: record({ port: u32, queue: u32 }),
  }),
  queueDescReply: row({
    name: 'OFPST_QUEUE_DESC',
    wire: [{ ...part(type.queueDesc, 'reply'), ...only15 }],
    source: 'OpenFlow 1.4 ofp_queue_desc',
    layout: record({ queues: list(queueDescription) }),
  }),
  flowMonitorRequest: row({
    name: 'OFPST_FLOW_MONITOR',
    wire: [{ ...part(type.flowMonitor, 'request'), ...only15 }],
    source: 'OpenFlow 1.4 ofp_flow_monitor_request',
    layout: monitorRequest,
  }),
  flowMonitorReply: row({
    name: 'OFPST_FLOW_MONITOR',
    wire: [{ ...part(type.flowMonitor, 'reply'), ...only15 }],
    source: 'OpenFlow 1.4 ofp_flow_update_header',
    layout: record({ updates: monitorUpdates }),
  }),
  controllerStatusRequest: row({
    name: 'OFPST_CONTROLLER_STATUS',
    wire: [{ ...part(type.controllerStatus, 'request'), ...only15 }],
    source: 'OpenFlow 1.5.1 section 7.3.5.20',
    layout: nothing,
  }),
  controllerStatusReply: row({
    name: 'OFPST_CONTROLLER_STATUS',
    wire: [{ ...part(type.controllerStatus, 'reply'), ...only15 }],
    source: 'OpenFlow 1.5.1 ofp_controller_status_header',
    layout: record({ controllers: controllerStatuses }),
  }),
  bundleFeaturesRequest: row({
    name: 'OFPST_BUNDLE_FEATURES',
    wire: [{ ...part(type.bundleFeatures, 'request'), ...only15 }],
    source: 'OpenFlow 1.5.1 ofp_bundle_features_request',
    layout: record({ features: u32, _zero: zeros(4), properties: properties({}) }),
  }),
  bundleFeaturesReply: row({
    name: 'OFPST_BUNDLE_FEATURES',
    wire: [{ ...part(type.bundleFeatures, 'reply'), ...only15 }],
    source: 'OpenFlow 1.5.1 ofp_bundle_features',
    layout: record({ capabilities: u16, _zero: zeros(6), properties: properties({}) }),
  }),
};
