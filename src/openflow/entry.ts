/** Public interface of the package, `seine/openflow`. Inside the project, import the defining file. */
export type { TlsCredentials } from '../base/async/endpoint.ts';
// biome-ignore lint/performance/noBarrelFile: the entry of a package export has to be one file
export { localPolicy, type ReconnectPolicy } from '../base/async/reconnect.ts';
export { ByteReader, ByteWriter } from '../base/bytes/bytes.ts';
export { type ErrorCode, SeineError } from '../base/errors/seine-error.ts';
export {
  type Action,
  type ActionOf,
  type BundleMembersAction,
  type ControllerAction,
  type CtAction,
  type HashFields,
  hashFields,
  type KnownAction,
  type LearnAction,
  type LearnSpec,
  type MemberAlgorithm,
  type MultipathAction,
  type MultipathAlgorithm,
  memberAlgorithms,
  multipathAlgorithms,
  type NatAction,
  type PacketInReason,
  packetInReasons,
  type ResubmitAction,
  type SampleAction,
  type SetFieldAction,
  type UnknownAction,
} from './actions/action.ts';
export { decodeActions, encodeActions, writeAction, writeActions } from './actions/actions.ts';
export {
  type BundleControl,
  type BundleControlType,
  bundleControls,
  bundleFlag,
  decodeBundleAdd,
  decodeBundleControl,
  writeBundleAdd,
  writeBundleControl,
} from './bundle.ts';
export { OpenFlowConnection, type OpenFlowConnectionOptions, type OpenFlowCounters } from './connection/connection.ts';
export { OpenFlowFramer } from './connection/framer.ts';
export { offeredVersions, writeHello } from './connection/hello.ts';
export { type ConntrackMatch, type ConntrackTuple, writeConntrackFlush } from './conntrack-flush.ts';
export {
  type AsyncConfig,
  decodeConfig,
  decodeDesc,
  decodeFeatures,
  decodeRole,
  decodeTableStats,
  type Features,
  type Role,
  roles,
  type SwitchConfig,
  type SwitchDesc,
  type TableStats,
  writeDescRequest,
  writeEmpty,
  writeFlushZone,
  writeRoleRequest,
  writeSetAsync,
  writeSetConfig,
  writeSetControllerId,
  writeTableStatsRequest,
  writeUsePacketIn2,
} from './control.ts';
export { decodeError, type ErrorMessage, errorOf } from './error-message.ts';
export { errorsIn13, niciraErrors, onfErrors, standardErrors } from './error-names.ts';
export { type Flow, writeFlow } from './flows/flow.ts';
export { decodeFlowMod, type FlowCommand, type FlowMod, flowCommands, flowFlag, noInstructions, writeFlowMod } from './flows/flow-mod.ts';
export { decodeFlowUpdates, type FlowMonitor, type FlowUpdate, monitorFlag, writeFlowMonitorRequest } from './flows/flow-monitor.ts';
export { decodeFlowRemoved, type FlowRemoved, type FlowRemovedReason, flowRemovedReasons } from './flows/flow-removed.ts';
export {
  decodeAggregate,
  type FlowAggregate,
  type FlowFilter,
  type FlowStats,
  visitFlowEntries,
  writeAggregateRequest,
  writeFlowDescRequest,
} from './flows/flow-stats.ts';
export { decodeInstructions, encodeInstructions, type Instructions, writeInstructions } from './flows/instructions.ts';
export type { Statistics } from './flows/layout-flow.ts';
export { type Bucket, type GroupType, groupTypes } from './groups/bucket.ts';
export {
  bucketPlace,
  decodeGroupDescriptions,
  decodeGroupMod,
  encodeGroup,
  everyGroup,
  type Group,
  type GroupCommand,
  type GroupMod,
  type GroupSelection,
  groupCommands,
  writeGroupDescRequest,
  writeGroupMod,
} from './groups/group.ts';
export { decodeGroupStats, type GroupStats, writeGroupStatsRequest } from './groups/group-stats.ts';
export type { Framing, Laid, Layout, PropertiesOf } from './layout.ts';
export {
  type Field,
  type FieldFormat,
  type FieldName,
  type FieldRow,
  type FieldValue,
  fieldNamed,
  fields,
  type Prerequisite,
  type Subfield,
} from './match/fields.ts';
export { decodeMatch, encodeMatch, isFieldName, type Match, writeMatch } from './match/match.ts';
export { type AnyValue, isMasked, type Masked, placeInField, wholeField } from './match/oxm.ts';
export {
  type BodyOf,
  decodeMessage,
  encodeMessage,
  type Message,
  type MessageKind,
  messageName,
  messageRows,
  type UnknownMessage,
} from './message.ts';
export type { AsyncMasks } from './messages/control.ts';
export type { FlowRemovedBody, FlowReport, MeterModBody } from './messages/flow.ts';
export type { MonitoredFlow, MonitorUpdate } from './messages/monitor.ts';
export type { EthernetErrors, EthernetFeatures, PortCounters, PortDescription, PortMod, QueueCounters } from './messages/port.ts';
export type { MessageRow, WirePlace } from './messages/row.ts';
export { type TableFeatureName, type TableFeatures, tableFeatureTypes } from './messages/table.ts';
export {
  ALL_METERS,
  decodeMeterMod,
  decodeMeters,
  type Meter,
  type MeterBand,
  type MeterMod,
  type MeterStats,
  meterCommands,
  meterFlag,
  writeMeterDescRequest,
  writeMeterMod,
} from './meter.ts';
export { decodeMultipart, type MultipartPart, multipartType, writeMultipartRequest } from './multipart.ts';
export { decodePacketIn, decodePacketIn2, decodePacketOut, type PacketIn, type PacketOut, writePacketOut, writeResume } from './packet.ts';
export {
  decodePortStats,
  decodePortStatus,
  decodePorts,
  type Port,
  type PortStats,
  type PortStatus,
  portReasons,
  writePortDescRequest,
  writePortStatsRequest,
} from './port.ts';
export {
  ALL_TABLES,
  type Header,
  isVersion,
  type MessageTypeName,
  messageType,
  messageTypeName,
  NICIRA,
  NO_BUFFER,
  ONF,
  OPENFLOW_13,
  OPENFLOW_15,
  ofGroup,
  ofPort,
  readHeader,
  setXid,
  type Version,
  versionNames,
} from './protocol.ts';
export { printActions, printInstructions } from './text/action-text.ts';
export { type FlowIdentity, printFlow } from './text/flow-text.ts';
export { printBucket, printGroup } from './text/group-text.ts';
export { printMatch } from './text/match-text.ts';
export { messageToJson } from './text/message-json.ts';
export { printMessage } from './text/message-text.ts';
export { printMeter, printMeterSpec } from './text/meter-text.ts';
export { parseActions, parseInstructions } from './text/parse-action.ts';
export { encodeParsedFlow, type ParsedFlow, parseFlow } from './text/parse-flow.ts';
export { parseGroup } from './text/parse-group.ts';
export { parseMatch } from './text/parse-match.ts';
export { parseMeter } from './text/parse-meter.ts';
export type { TextNumbers } from './text/parse-value.ts';
export type { TextNames } from './text/value-text.ts';
export { decodeUnsolicited, type Unsolicited } from './unsolicited.ts';
