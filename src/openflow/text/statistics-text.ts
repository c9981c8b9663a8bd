import type { BodyOf } from '../message.ts';
import type { FlowReport } from '../messages/flow.ts';
import type { MonitorUpdate } from '../messages/monitor.ts';
import { ALL_TABLES, ofGroup, ofPort, type Version } from '../protocol.ts';
import { printGroupIn, printPortDescription, removedReason } from './change-text.ts';
import { printTableDescription } from './control-text.ts';
import { flagWords } from './flow-text.ts';
import type { MessageContext, MessagePrinters } from './message-printers.ts';
import { printMeter, printMeterId } from './meter-text.ts';
import { bitsText, flowText, secondsText } from './plain-text.ts';
import { printPort, type TextNames } from './value-text.ts';

function printFilter(
  { table, outPort, outGroup, cookie, cookieMask, match }: BodyOf<'flowRequest'>,
  { names, version }: MessageContext,
): string {
  const parts: string[] = [];
  if (table !== ALL_TABLES) parts.push(`table=${names.table?.(table) ?? table}`);
  if (outPort !== ofPort.any) parts.push(`out_port=${printPort(outPort, names)}`);
  if (outGroup !== ofGroup.any) parts.push(`out_group=${outGroup}`);
  if (cookieMask !== 0n) parts.push(`cookie=0x${cookie.toString(16)}/0x${cookieMask.toString(16)}`);
  parts.push(flowText(match, undefined, names, version));
  return parts.filter((part) => part !== '').join(' ');
}

/** Prints a flow like a line of `ovs-ofctl dump-flows`. */
function printFlowReport(flow: FlowReport, names: TextNames, version: Version): string {
  const { durationNs = 0n, packets = 0n, bytes = 0n, idleNs } = flow.statistics;
  const parts = [`cookie=0x${flow.cookie.toString(16)}`, `duration=${secondsText(durationNs)}s`];
  parts.push(`table=${names.table?.(flow.table) ?? flow.table}`, `n_packets=${packets}`, `n_bytes=${bytes}`);
  if (flow.idleTimeout !== 0) parts.push(`idle_timeout=${flow.idleTimeout}`);
  if (flow.hardTimeout !== 0) parts.push(`hard_timeout=${flow.hardTimeout}`);
  const flags = flagWords.filter(([flag]) => (flow.flags & flag) !== 0).map(([, word]) => `${word} `);
  const importance = flow.importance === 0 ? [] : [`importance=${flow.importance}, `];
  const idle = idleNs === undefined ? [] : [`idle_age=${idleNs / 1_000_000_000n}, `];
  const options = [...flags, ...importance, ...idle].join('');
  const rest = flowText(flow.match, flow.instructions, names, version, flow.priority === 0x8000 ? [] : [`priority=${flow.priority}`]);
  return `${parts.join(', ')}, ${options}${rest}`;
}

const monitorWords = ['initial', 'add', 'delete', 'modify', 'actions', 'no-abbrev', 'own'];
/** Flags of the extension to OpenFlow 1.3. */
const monitorWords13 = ['initial', 'add', 'delete', 'modify', 'actions', 'own'];

function printMonitor(words: readonly string[], request: BodyOf<'flowMonitorRequest13'>, { names, version }: MessageContext): string {
  const parts = [`id=${request.id}`, `flags=${bitsText(request.flags, words, ',')}`];
  if (request.outPort !== ofPort.any) parts.push(`out_port=${printPort(request.outPort, names)}`);
  if (request.table !== ALL_TABLES) parts.push(`table=${names.table?.(request.table) ?? request.table}`);
  return [...parts, flowText(request.match, undefined, names, version)].filter((part) => part !== '').join(' ');
}

const eventWords: Readonly<Record<string, string>> = { initial: 'INITIAL', added: 'ADDED', removed: 'DELETED', modified: 'MODIFIED' };

function printUpdate({ event, xid, flow }: MonitorUpdate, { names, version }: MessageContext): string {
  if (flow === undefined)
    return event === 'abbreviated' ? `event=ABBREV xid=0x${(xid ?? 0).toString(16)}` : `event=${String(event).toUpperCase()}`;
  const parts = [`event=${eventWords[event] ?? event}`];
  if (event === 'removed') parts.push(`reason=${removedReason(flow.reason)}`);
  parts.push(`table=${names.table?.(flow.table) ?? flow.table}`);
  if (flow.idleTimeout !== 0) parts.push(`idle_timeout=${flow.idleTimeout}`);
  if (flow.hardTimeout !== 0) parts.push(`hard_timeout=${flow.hardTimeout}`);
  parts.push(`cookie=${flow.cookie === 0n ? '0' : `0x${flow.cookie.toString(16)}`}`);
  parts.push(flowText(flow.match, flow.instructions.length === 0 ? undefined : flow.instructions, names, version));
  return parts.filter((part) => part !== '').join(' ');
}

function printUpdates({ updates }: { readonly updates: readonly MonitorUpdate[] }, context: MessageContext): string {
  return updates.map((each) => printUpdate(each, context)).join(' ');
}

function printGroupCounters({ groups }: BodyOf<'groupStatsReply'>): string {
  return groups
    .map(({ id, durationNs, references, packets, bytes, buckets }) =>
      [
        `group_id=${id},duration=${secondsText(durationNs)}s,ref_count=${references},packet_count=${packets},byte_count=${bytes}`,
        ...buckets.map((bucket, index) => `bucket${index}:packet_count=${bucket.packets},byte_count=${bucket.bytes}`),
      ].join(','),
    )
    .join(' ');
}

function printMeterCounters({ meters }: BodyOf<'meterStatsReply'>): string {
  return meters
    .map(({ id, flows, packets, bytes, durationNs, bands }) =>
      [
        `meter:${printMeterId(id)} flow_count:${flows} packet_in_count:${packets} byte_in_count:${bytes} duration:${secondsText(durationNs)}s bands:`,
        ...bands.map((band, index) => `${index}: packet_count:${band.packets} byte_count:${band.bytes}`),
      ].join(' '),
    )
    .join(' ');
}

const unknownCount = 0xffff_ffff_ffff_ffffn;

function counted(value: bigint): string {
  return value === unknownCount ? '?' : String(value);
}

function printPorts({ ports }: BodyOf<'portStatsReply'>, { names }: MessageContext): string {
  const lines = ports.map((each) => {
    const { frame = unknownCount, overrun = unknownCount, crc = unknownCount, collisions = unknownCount } = each.ethernet ?? {};
    return [
      `port ${printPort(each.port, names)}: rx pkts=${counted(each.rxPackets)}, bytes=${counted(each.rxBytes)}, drop=${counted(each.rxDropped)},`,
      `errs=${counted(each.rxErrors)}, frame=${counted(frame)}, over=${counted(overrun)}, crc=${counted(crc)}`,
      `tx pkts=${counted(each.txPackets)}, bytes=${counted(each.txBytes)}, drop=${counted(each.txDropped)}, errs=${counted(each.txErrors)},`,
      `coll=${counted(collisions)} duration=${secondsText(each.durationNs)}s`,
    ].join(' ');
  });
  return [`${ports.length} ports`, ...lines].join(' ');
}

function printQueues({ queues }: BodyOf<'queueStatsReply'>, { names }: MessageContext): string {
  const lines = queues.map(
    ({ port, queue, txBytes, txPackets, txErrors, durationNs }) =>
      `port ${printPort(port, names)} queue ${queue}: bytes=${counted(txBytes)}, pkts=${counted(txPackets)}, errors=${counted(txErrors)}, duration=${secondsText(durationNs)}s`,
  );
  return [`${queues.length} queues`, ...lines].join(' ');
}

function queueWord(queue: number): string {
  return queue === 0xffff_ffff ? 'ALL' : String(queue);
}

function groupWord(group: number): string {
  return group === ofGroup.all ? 'ALL' : group === ofGroup.any ? 'ANY' : String(group);
}

const meterRequest = ({ meter }: BodyOf<'meterStatsRequest'>) => `meter=${printMeterId(meter)}`;

/** Statistics requests and the replies of a switch. */
export const statisticsPrinters: MessagePrinters = {
  descReply: ({ manufacturer, hardware, software, serialNumber, datapath }) =>
    [
      `Manufacturer: ${manufacturer}`,
      `Hardware: ${hardware}`,
      `Software: ${software}`,
      `Serial Num: ${serialNumber}`,
      `DP Description: ${datapath}`,
    ].join(' '),
  flowRequest: printFilter,
  flowStatsRequest: printFilter,
  aggregateRequest: printFilter,
  flowReply: ({ flows }, { names, version }) => flows.map((flow) => printFlowReport(flow, names, version)).join(' '),
  aggregateReply: ({ packets = 0n, bytes = 0n, flows = 0 }) => `packet_count=${packets} byte_count=${bytes} flow_count=${flows}`,
  tableStatsReply: ({ tables }, { names }) =>
    tables
      .map(
        ({ table, flows, lookups, matches }) =>
          `table ${names.table?.(table) ?? table}: active=${flows}, lookup=${lookups}, matched=${matches}`,
      )
      .join(' '),
  portStatsRequest: ({ port }, { names }) => `port_no=${printPort(port, names)}`,
  portStatsReply: printPorts,
  queueStatsRequest: ({ port, queue }, { names }) => `port=${printPort(port, names)} queue=${queueWord(queue)}`,
  queueStatsReply: printQueues,
  queueDescRequest: ({ port, queue }, { names }) => `port=${printPort(port, names)}${queue === 0xffff_ffff ? '' : ` queue=${queue}`}`,
  groupStatsRequest: ({ group }) => `group_id=${groupWord(group)}`,
  groupStatsReply: printGroupCounters,
  groupDescRequest: ({ group }) => `group_id=${groupWord(group)}`,
  groupDescReply: ({ groups }, { names, version }) => groups.map((group) => printGroupIn(version, group, names)).join(' '),
  meterStatsRequest: meterRequest,
  meterDescRequest: meterRequest,
  meterStatsReply: printMeterCounters,
  meterDescReply: ({ meters }) => meters.map(printMeter).join(' '),
  meterFeaturesReply: ({ maxMeters, maxBands, maxColors, bandTypes, capabilities }) =>
    [
      `max_meter:${maxMeters} max_bands:${maxBands} max_color:${maxColors}`,
      `band_types: ${bitsText(bandTypes, ['', 'drop', 'dscp_remark'])}`,
      `capabilities: ${bitsText(capabilities, ['kbps', 'pktps', 'burst', 'stats'])}`,
    ].join(' '),
  portDescRequest: ({ port }, { names }) => `port=${printPort(port, names)}`,
  portDescReply: ({ ports }, { names }) => ports.map((port) => printPortDescription(port, names)).join(' '),
  tableDescReply: ({ tables }, { names }) => tables.map((table) => printTableDescription(table, names)).join(' '),
  flowMonitorRequest: (request, context) => printMonitor(monitorWords, request, context),
  flowMonitorRequest13: (request, context) => printMonitor(monitorWords13, request, context),
  flowMonitorReply: printUpdates,
  flowMonitorReply13: printUpdates,
};
