import { bundleControls } from '../bundle.ts';
import { roles } from '../control.ts';
import {
  byVersion,
  framed,
  joined,
  type Layout,
  list,
  mapped,
  nothing,
  oneOf,
  properties,
  record,
  rest,
  u8,
  u16,
  u32,
  u64,
  zeros,
} from '../layout.ts';
import { messageType as type } from '../protocol.ts';
import { alsoIn13, only13, only15, row } from './row.ts';
import { tableDescription } from './table.ts';

const bits = { layout: u32 };

/** Sum of 2 ** reason for each kind of unsolicited message; first for a primary or equal controller. */
export interface AsyncMasks {
  readonly packetIn?: number;
  readonly packetInSecondary?: number;
  readonly portStatus?: number;
  readonly portStatusSecondary?: number;
  readonly flowRemoved?: number;
  readonly flowRemovedSecondary?: number;
  readonly roleStatus?: number;
  readonly roleStatusSecondary?: number;
  readonly tableStatus?: number;
  readonly tableStatusSecondary?: number;
  readonly requestForward?: number;
  readonly requestForwardSecondary?: number;
  readonly unknownProperties?: Uint8Array;
}

/** In the order in which Open vSwitch writes them. Source: OpenFlow 1.5.1 `ofp_async_config_prop_type`. */
export const asyncProperties: Layout<AsyncMasks> = properties({
  packetInSecondary: { type: 0, ...bits },
  packetIn: { type: 1, ...bits },
  portStatusSecondary: { type: 2, ...bits },
  portStatus: { type: 3, ...bits },
  flowRemovedSecondary: { type: 4, ...bits },
  flowRemoved: { type: 5, ...bits },
  roleStatusSecondary: { type: 6, ...bits },
  roleStatus: { type: 7, ...bits },
  tableStatusSecondary: { type: 8, ...bits },
  tableStatus: { type: 9, ...bits },
  requestForwardSecondary: { type: 10, ...bits },
  requestForward: { type: 11, ...bits },
});

/** Source: OpenFlow 1.3.5 `ofp_async_config`, Open vSwitch `nx_async_config`. */
export const asyncPairs: Layout<AsyncMasks> = mapped(
  record({ packetIn: u32, packetInSecondary: u32, portStatus: u32, portStatusSecondary: u32, flowRemoved: u32, flowRemovedSecondary: u32 }),
  (masks): AsyncMasks => masks,
  ({ packetIn = 0, packetInSecondary = 0, portStatus = 0, portStatusSecondary = 0, flowRemoved = 0, flowRemovedSecondary = 0 }) => ({
    packetIn,
    packetInSecondary,
    portStatus,
    portStatusSecondary,
    flowRemoved,
    flowRemovedSecondary,
  }),
);

const async = byVersion(asyncPairs, asyncProperties);

const role = record({ role: oneOf(u32, roles), shortId: u16, _zero: zeros(2), generation: u64 });

const controllerStatus = framed(
  'controller status',
  { lengthAt: 0, atLeast: 16 },
  record({
    _length: zeros(2),
    shortId: u16,
    role: oneOf(u32, roles),
    reason: oneOf(u8, ['request', 'channelStatus', 'role', 'added', 'removed', 'shortId', 'experimenter']),
    channel: oneOf(u8, ['up', 'down']),
    _zero: zeros(6),
    properties: rest,
  }),
);

/** Session, configuration, roles, bundles. */
export const controlRows = {
  hello: row({ name: 'OFPT_HELLO', wire: [{ type: type.hello }], source: 'ofp_hello: elements', layout: record({ elements: rest }) }),
  error: row({
    name: 'OFPT_ERROR',
    wire: [{ type: type.error }],
    source: 'ofp_error_msg; with type 0xffff ofp_error_experimenter_msg, whose data begins with the vendor',
    layout: record({ type: u16, code: u16, data: rest }),
  }),
  echoRequest: row({ name: 'OFPT_ECHO_REQUEST', wire: [{ type: type.echoRequest }], source: 'ofp_header', layout: record({ data: rest }) }),
  echoReply: row({ name: 'OFPT_ECHO_REPLY', wire: [{ type: type.echoReply }], source: 'ofp_header', layout: record({ data: rest }) }),
  featuresRequest: row({ name: 'OFPT_FEATURES_REQUEST', wire: [{ type: type.featuresRequest }], source: 'ofp_header', layout: nothing }),
  featuresReply: row({
    name: 'OFPT_FEATURES_REPLY',
    wire: [{ type: type.featuresReply }],
    source: 'ofp_switch_features',
    layout: record({ datapathId: u64, buffers: u32, tables: u8, auxiliary: u8, _zero: zeros(2), capabilities: u32, reserved: u32 }),
  }),
  getConfigRequest: row({
    name: 'OFPT_GET_CONFIG_REQUEST',
    wire: [{ type: type.getConfigRequest }],
    source: 'ofp_header',
    layout: nothing,
  }),
  getConfigReply: row({
    name: 'OFPT_GET_CONFIG_REPLY',
    wire: [{ type: type.getConfigReply }],
    source: 'ofp_switch_config',
    layout: record({ fragments: u16, missSendLength: u16 }),
  }),
  setConfig: row({
    name: 'OFPT_SET_CONFIG',
    wire: [{ type: type.setConfig }],
    source: 'ofp_switch_config',
    layout: record({ fragments: u16, missSendLength: u16 }),
  }),
  barrierRequest: row({ name: 'OFPT_BARRIER_REQUEST', wire: [{ type: type.barrierRequest }], source: 'ofp_header', layout: nothing }),
  barrierReply: row({ name: 'OFPT_BARRIER_REPLY', wire: [{ type: type.barrierReply }], source: 'ofp_header', layout: nothing }),
  roleRequest: row({
    name: 'OFPT_ROLE_REQUEST',
    wire: [{ type: type.roleRequest }],
    source: 'ofp_role_request; OpenFlow 1.3 has zeros for the short number',
    layout: role,
  }),
  roleReply: row({ name: 'OFPT_ROLE_REPLY', wire: [{ type: type.roleReply }], source: 'ofp_role_request', layout: role }),
  getAsyncRequest: row({ name: 'OFPT_GET_ASYNC_REQUEST', wire: [{ type: type.getAsyncRequest }], source: 'ofp_header', layout: nothing }),
  getAsyncReply: row({ name: 'OFPT_GET_ASYNC_REPLY', wire: [{ type: type.getAsyncReply }], source: 'ofp_async_config', layout: async }),
  setAsync: row({ name: 'OFPT_SET_ASYNC', wire: [{ type: type.setAsync }], source: 'ofp_async_config', layout: async }),
  roleStatus: row({
    name: 'OFPT_ROLE_STATUS',
    wire: [{ type: type.roleStatus, ...only15 }],
    source: 'OpenFlow 1.4 ofp_role_status',
    layout: record({
      role: oneOf(u32, roles),
      reason: oneOf(u8, ['primaryRequest', 'configuration', 'experimenter']),
      _zero: zeros(3),
      generation: u64,
      properties: rest,
    }),
  }),
  tableStatus: row({
    name: 'OFPT_TABLE_STATUS',
    wire: [{ type: type.tableStatus, ...only15 }],
    source: 'OpenFlow 1.4 ofp_table_status; reason 3 vacancy down, 4 vacancy up',
    layout: record({ reason: u8, _zero: zeros(7), table: tableDescription }),
  }),
  requestForward: row({
    name: 'OFPT_REQUESTFORWARD',
    wire: [{ type: type.requestForward, ...only15 }],
    source: 'OpenFlow 1.4 ofp_requestforward_header: a whole message',
    layout: record({ message: rest }),
  }),
  controllerStatus: row({
    name: 'OFPT_CONTROLLER_STATUS',
    wire: [{ type: type.controllerStatus, ...only15 }],
    source: 'OpenFlow 1.5.1 ofp_controller_status_header',
    layout: controllerStatus,
  }),
  bundleControl: row({
    name: 'OFPT_BUNDLE_CONTROL',
    nameIn13: 'ONFT_BUNDLE_CONTROL',
    wire: alsoIn13(type.bundleControl, 2300),
    source: 'OpenFlow 1.4 ofp_bundle_ctrl_msg; in 1.3 the extension EXT-230',
    layout: record({ bundle: u32, type: oneOf(u16, bundleControls), flags: u16, properties: rest }),
  }),
  bundleAdd: row({
    name: 'OFPT_BUNDLE_ADD_MESSAGE',
    nameIn13: 'ONFT_BUNDLE_ADD_MESSAGE',
    wire: alsoIn13(type.bundleAdd, 2301),
    source: 'OpenFlow 1.4 ofp_bundle_add_msg; in 1.3 the extension EXT-230',
    layout: record({ bundle: u32, _zero: zeros(2), flags: u16, message: rest }),
  }),
  queueConfigRequest: row({
    name: 'OFPT_QUEUE_GET_CONFIG_REQUEST',
    wire: [{ type: type.queueConfigRequest, ...only13 }],
    source: 'OpenFlow 1.3.5 ofp_queue_get_config_request',
    layout: record({ port: u32, _zero: zeros(4) }),
  }),
  queueConfigReply: row({
    name: 'OFPT_QUEUE_GET_CONFIG_REPLY',
    wire: [{ type: type.queueConfigReply, ...only13 }],
    source: 'OpenFlow 1.3.5 ofp_queue_get_config_reply: port, ofp_packet_queue in wire form',
    layout: joined(record({ port: u32, _zero: zeros(4) }), record({ queues: rest })),
  }),
};

export const controllerStatuses = list(controllerStatus);
