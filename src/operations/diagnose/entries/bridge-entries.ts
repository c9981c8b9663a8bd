import type { Entry, FlowEntry } from '../../../api/entry.ts';
import type { LoopTurns } from '../../../base/async/loop-turns.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import { type PipelineTableName, tableName, tables } from '../../../dataplane/pipeline/tables.ts';
import {
  type BridgeKey,
  type BridgeValue,
  describeFlowEntry,
  groupMessage,
  isFlowKey,
  isFragmentsKey,
  isGroupKey,
  isMeterKey,
  isOpenFlowSetting,
  isOrdinaryMeter,
  meterMessage,
  numberOf,
  observedFlow,
  observedGroup,
  observedMeter,
} from '../../../dataplane/targets/bridge/bridge-entry.ts';
import type { LearnedFlows } from '../../../dataplane/targets/bridge/learned-flows.ts';
import { visitSettings } from '../../../dataplane/targets/bridge/openflow-settings.ts';
import type { OpenFlowConnection } from '../../../openflow/connection/connection.ts';
import type { FlowFilter, FlowStats as SwitchFlow } from '../../../openflow/flows/flow-stats.ts';
import { decodeGroupMod, type Group } from '../../../openflow/groups/group.ts';
import { decodeMeterMod, type Meter } from '../../../openflow/meter.ts';
import { printFlow } from '../../../openflow/text/flow-text.ts';
import { printGroup } from '../../../openflow/text/group-text.ts';
import { printMeter } from '../../../openflow/text/meter-text.ts';
import type { TextNames } from '../../../openflow/text/value-text.ts';
import { type Compared, compare, type ReconciledTarget } from './compare.ts';

/** Requests to the bridge itself. */
export interface BridgeReader extends Pick<OpenFlowConnection, 'request' | 'gather'> {
  dumpFlows(filter: FlowFilter, visit: (flow: SwitchFlow) => void, signal: AbortSignal): Promise<void>;
  dumpGroups(signal: AbortSignal): Promise<readonly Group[]>;
  dumpMeters(signal: AbortSignal): Promise<readonly Meter[]>;
}

type BridgePart = ReconciledTarget<BridgeKey, BridgeValue>;

/** Counters of a flow. */
interface Counted {
  readonly packets: bigint;
  readonly bytes: bigint;
  readonly durationNs: bigint;
}

export interface BridgeSnapshot {
  /** Flows, groups and meters; learned flows are in `learned`. */
  readonly held: Map<BridgeKey, BridgeValue>;
  readonly learned: Map<BridgeKey, BridgeValue>;
  readonly counted: ReadonlyMap<BridgeKey, Counted>;
}

export interface BridgeFilter {
  readonly table?: PipelineTableName;
  /** Owner, or the prefix of one up to a slash. */
  readonly owner?: string;
}

interface Reading {
  readonly reader: BridgeReader;
  /** Entries in sync are represented by the desired copy, so that a large bridge is not stored twice. */
  readonly desired: Pick<BridgePart['desired'], 'wanted'>;
  /** Flows that the switch may have added itself. */
  readonly learned: Pick<LearnedFlows, 'covers'>;
  /** Only this table; groups and meters are left out then. */
  readonly table?: PipelineTableName;
  readonly counters: 'kept' | 'dropped';
}

/** @throws SeineError `UNAVAILABLE` if OVS is not connected */
export async function readBridge(
  { reader, desired, learned: judge, table, counters }: Reading,
  signal: AbortSignal,
): Promise<BridgeSnapshot> {
  const held = new Map<BridgeKey, BridgeValue>();
  const learned = new Map<BridgeKey, BridgeValue>();
  const counted = new Map<BridgeKey, Counted>();
  if (table === undefined) {
    for (const group of await reader.dumpGroups(signal)) held.set(...observedGroup(group));
    for (const meter of await reader.dumpMeters(signal)) if (isOrdinaryMeter(meter)) held.set(...observedMeter(meter));
    await visitSettings(reader, (key, value) => held.set(key, value), signal);
  }
  await reader.dumpFlows(
    table === undefined ? {} : { table: tables[table].id },
    (flow) => {
      const [key, value] = observedFlow(flow);
      const wanted = desired.wanted(key);
      (judge.covers(flow) ? learned : held).set(key, value === wanted ? wanted : value);
      if (counters === 'kept') counted.set(key, { packets: flow.packets, bytes: flow.bytes, durationNs: flow.durationNs });
    },
    signal,
  );
  return { held, learned, counted };
}

/** Current owner with this cookie. */
type OwnerByCookie = (cookie: bigint) => string | undefined;

interface BridgeNames {
  readonly names: TextNames;
  readonly ownerOf: OwnerByCookie;
}

export interface BridgeViewContext {
  readonly words: BridgeNames;
  readonly turns: LoopTurns;
}

/** Every list takes turns with the rest of the agent, also for skipped entries. */
export async function* flowEntries(
  part: BridgePart,
  snapshot: BridgeSnapshot,
  narrowed: BridgeFilter,
  { words, turns }: BridgeViewContext,
): AsyncGenerator<FlowEntry> {
  const isAskedFor = narrowing(narrowed);
  for (const each of compare(part, snapshot.held)) {
    if (turns.due) await turns.next();
    if (!isFlowKey(each.key) || !isAskedFor.table(each.key)) continue;
    if (each.owners.length > 0 && !isAskedFor.owners(each.owners)) continue;
    const entry = flowEntry(each, snapshot, words);
    if (isAskedFor.owners(entry.owners)) yield entry;
  }
  if (narrowed.owner !== undefined) return;
  for (const [key, actual] of snapshot.learned)
    if (isAskedFor.table(key))
      yield { ...flowEntry({ key, state: 'extra', owners: [], wanted: undefined, actual }, snapshot, words), state: 'learned' };
}

/** Groups, or meters. */
export async function* numberedEntries(
  part: BridgePart,
  snapshot: BridgeSnapshot,
  { kind, ...narrowed }: BridgeFilter & { readonly kind: 'group' | 'meter' },
  { words, turns }: BridgeViewContext,
): AsyncGenerator<Entry> {
  const isOfKind = kind === 'group' ? isGroupKey : isMeterKey;
  const isAskedFor = narrowing(narrowed);
  for (const each of compare(part, snapshot.held)) {
    if (turns.due) await turns.next();
    if (isOfKind(each.key) && isAskedFor.owners(each.owners)) yield numberedEntry(each, words);
  }
}

/** Flows, groups, meters and settings that are not in sync. Those in sync are not formatted: a large bridge costs only the comparison. */
export async function* bridgeDifferences(
  part: BridgePart,
  snapshot: BridgeSnapshot,
  { words, turns }: BridgeViewContext,
): AsyncGenerator<Entry> {
  for (const each of compare(part, snapshot.held)) {
    if (turns.due) await turns.next();
    if (each.state !== 'ok') yield differenceOf(each, snapshot, words);
  }
}

function differenceOf(each: Compared<BridgeKey, BridgeValue>, snapshot: BridgeSnapshot, words: BridgeNames): Entry {
  if (isFlowKey(each.key)) return flowEntry(each, snapshot, words);
  return isOpenFlowSetting(each.key) ? openFlowSettingEntry(each, words) : numberedEntry(each, words);
}

/** Setting of a port or of the bridge that another OpenFlow controller changed, in the syntax of ovs-ofctl. */
function openFlowSettingEntry({ key, state, owners, actual }: Compared<BridgeKey, BridgeValue>, { names }: BridgeNames): Entry {
  const port = isFragmentsKey(key) ? undefined : numberOf(key);
  const name = port === undefined ? 'set-frags' : `mod-port ${names.port?.(port) ?? port}`;
  return { kind: 'setting', name: `openflow/${name}`, state, owners, wanted: null, actual: `${name} ${actual}` };
}

function flowEntry(each: Compared<BridgeKey, BridgeValue>, { counted }: BridgeSnapshot, { names, ownerOf }: BridgeNames): FlowEntry {
  const { key, state, owners, wanted, actual, error } = each;
  const value = wanted ?? actual;
  if (value === undefined) throw new SeineError('INVARIANT', 'a flow that is neither desired nor present');
  const { table, priority, cookie } = describeFlowEntry(key, value);
  const counts = counted.get(key);
  const byCookie = owners.length === 0 ? ownerOf(cookie) : undefined;
  const wantedText = flowText(key, wanted, names);
  return {
    kind: 'flow',
    name: Buffer.from(key, 'latin1').toString('hex').slice(2),
    state,
    owners: byCookie === undefined ? owners : [byCookie],
    table: tableName(table) ?? String(table),
    priority,
    wanted: wantedText,
    actual: actual === wanted ? wantedText : flowText(key, actual, names),
    packets: counts ? counts.packets.toString() : null,
    bytes: counts ? counts.bytes.toString() : null,
    ageSeconds: counts ? Math.round(Number(counts.durationNs) / 1e9) : null,
    ...(error ? { error } : {}),
  };
}

function numberedEntry({ key, state, owners, wanted, actual, error }: Compared<BridgeKey, BridgeValue>, { names }: BridgeNames): Entry {
  const text = (value: BridgeValue): string =>
    isMeterKey(key) ? printMeter(decodeMeterMod(meterMessage(value))) : printGroup(decodeGroupMod(groupMessage(value)), names);
  return {
    kind: isMeterKey(key) ? 'meter' : 'group',
    name: String(numberOf(key)),
    state,
    owners,
    wanted: wanted === undefined ? null : text(wanted),
    actual: actual === undefined ? null : text(actual),
    ...(error ? { error } : {}),
  };
}

function flowText(key: BridgeKey, value: BridgeValue | undefined, names: TextNames): string | null {
  return value === undefined ? null : printFlow(describeFlowEntry(key, value), names);
}

function narrowing({ table, owner }: BridgeFilter) {
  const id = table === undefined ? undefined : tables[table].id;
  return {
    table: (key: BridgeKey): boolean => id === undefined || key.charCodeAt(1) === id,
    owners: (owners: readonly string[]): boolean =>
      owner === undefined || owners.some((each) => each === owner || each.startsWith(owner.endsWith('/') ? owner : `${owner}/`)),
  };
}
