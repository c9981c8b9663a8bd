/** What the package exports as `seine/openflow`. Inside the project, import the file that has what you need. */
// biome-ignore lint/performance/noBarrelFile: the entry of a package export has to be one file
export { ByteReader, ByteWriter } from '../wire/bytes.ts';
export type {
  Action,
  ControllerAction,
  CtAction,
  LearnAction,
  LearnSpec,
  Nat,
  ResubmitAction,
  SampleAction,
  SetFieldAction,
  UnknownAction,
} from './action.ts';
export { decodeActions, encodeActions, writeActions } from './actions.ts';
export { OpenFlowConnection, type OpenFlowConnectionOptions, type OpenFlowCounters } from './connection.ts';
export { decodeError, type ErrorMessage } from './error-message.ts';
export { type FieldName, type FieldValue, fields, type Subfield } from './fields.ts';
export { decodeFlowMod, type FlowCommand, type FlowMod, flowFlag, writeFlowMod } from './flow-mod.ts';
export { type FlowAggregate, type FlowEntry, type FlowFilter, visitFlowEntries } from './flow-stats.ts';
export { OpenFlowFramer } from './framer.ts';
export {
  type Bucket,
  bucketPlace,
  decodeGroupDescriptions,
  decodeGroupMod,
  encodeGroup,
  type Group,
  type GroupMod,
  writeGroupMod,
} from './group.ts';
export { decodeInstructions, encodeInstructions, type Instructions } from './instructions.ts';
export { decodeMatch, encodeMatch, type Match } from './match.ts';
export { type Masked, placeInField, wholeField } from './oxm.ts';
export { decodePacketIn, decodePacketIn2, decodePacketOut, type PacketIn, type PacketOut, writePacketOut, writeResume } from './packet.ts';
export { decodePorts, type Port, type PortStats, writePortDescRequest } from './port.ts';
export { ALL_TABLES, messageType, ofGroup, ofPort, readHeader } from './protocol.ts';
export { printInstructions } from './text/action-text.ts';
export { printFlow } from './text/flow-text.ts';
export { printGroup } from './text/group-text.ts';
export { printMatch } from './text/match-text.ts';
export { encodeParsedFlow, type ParsedFlow, parseFlow } from './text/parse-flow.ts';
export { parseGroup } from './text/parse-group.ts';
export type { TextNumbers } from './text/parse-value.ts';
export type { TextNames } from './text/value-text.ts';
export { decodeUnsolicited, type Unsolicited } from './unsolicited.ts';
