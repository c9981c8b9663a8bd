import type { FlowMod } from '../flows/flow-mod.ts';
import type { GroupMod } from '../groups/group.ts';
import { bucketPlace } from '../groups/group.ts';
import { decodeOxmFields, type Match } from '../match/match.ts';
import type { BodyOf } from '../message.ts';
import type { FlowRemovedBody } from '../messages/flow.ts';
import type { PortDescription } from '../messages/port.ts';
import { ofGroup, ofPort, type Version } from '../protocol.ts';
import { printActions } from './action-text.ts';
import { flagWords } from './flow-text.ts';
import { printGroup } from './group-text.ts';
import { printMatch } from './match-text.ts';
import type { MessageContext, MessagePrinters } from './message-printers.ts';
import { printBand, printMeterHead } from './meter-text.ts';
import { bitsText, flowText, secondsText } from './plain-text.ts';
import { hexText, printMac, printPort, type TextNames } from './value-text.ts';

const commandWords = { add: 'ADD', modify: 'MOD', modifyStrict: 'MOD_STRICT', delete: 'DEL', deleteStrict: 'DEL_STRICT' } as const;
const usesPriority: ReadonlySet<string> = new Set(['add', 'modifyStrict', 'deleteStrict']);

function printFlowMod(mod: FlowMod, { names, version }: MessageContext): string {
  const isStrict = usesPriority.has(mod.command);
  const priority = isStrict && mod.priority !== 0x8000 ? [`priority=${mod.priority}`] : [];
  const parts = [commandWords[mod.command], mod.table === 0 ? '' : `table:${names.table?.(mod.table) ?? mod.table}`];
  parts.push(flowText(mod.match, undefined, names, version, priority));
  parts.push(...flowModOptions(mod, names));
  parts.push(flowText(noMatch, mod.instructions, names, version));
  return parts.filter((part) => part !== '').join(' ');
}

const noMatch = Uint8Array.of(0, 1, 0, 4, 0, 0, 0, 0);
const ALL_ONES = 0xffff_ffff_ffff_ffffn;

function flowModOptions(mod: FlowMod, names: TextNames): string[] {
  const parts: string[] = [];
  const { cookie = 0n, cookieMask = 0n, idleTimeout = 0, hardTimeout = 0, importance = 0 } = mod;
  if (mod.command !== 'add' && cookieMask !== 0n) parts.push(`cookie:0x${cookie.toString(16)}/0x${cookieMask.toString(16)}`);
  else if (cookie !== 0n && cookie !== ALL_ONES) parts.push(`cookie:0x${cookie.toString(16)}`);
  if (idleTimeout !== 0) parts.push(`idle:${idleTimeout}`);
  if (hardTimeout !== 0) parts.push(`hard:${hardTimeout}`);
  if (importance !== 0) parts.push(`importance:${importance}`);
  if (mod.buffer !== undefined) parts.push(`buf:0x${mod.buffer.toString(16)}`);
  if (mod.outPort !== undefined && mod.outPort !== ofPort.any) parts.push(`out_port:${printPort(mod.outPort, names)}`);
  if (mod.outGroup !== undefined && mod.outGroup !== ofGroup.any && mod.outGroup !== 0) parts.push(`out_group:${mod.outGroup}`);
  const { flags = 0 } = mod;
  return [...parts, ...flagWords.filter(([flag]) => (flags & flag) !== 0).map(([, word]) => word)];
}

const groupWords = {
  add: 'ADD',
  modify: 'MOD',
  delete: 'DEL',
  insertBuckets: 'INSERT_BUCKET',
  removeBuckets: 'REMOVE_BUCKET',
  addOrModify: 'ADD_OR_MOD',
} as const;

function printGroupMod(mod: GroupMod, { names, version }: MessageContext): string {
  const text = printGroupIn(version, mod, names);
  if (mod.command !== 'insertBuckets' && mod.command !== 'removeBuckets') return `${groupWords[mod.command]} ${text}`;
  const { place = bucketPlace.all } = mod;
  const word = place === bucketPlace.all ? 'all' : place === bucketPlace.first ? 'first' : place === bucketPlace.last ? 'last' : place;
  return `${groupWords[mod.command]} command_bucket_id:${word},${text.replace(/,type=\w+/, '')}`;
}

/** Buckets have no numbers in OpenFlow 1.3. */
export function printGroupIn(version: Version, group: Parameters<typeof printGroup>[0], names: TextNames): string {
  const text = printGroup(group, names);
  return version === 4 ? text.replaceAll(/bucket=bucket_id:\d+,/g, 'bucket=') : text;
}

function printMeterMod({ command, id, flags, bands }: BodyOf<'meterMod'>): string {
  const word = command === 'add' ? 'ADD' : command === 'modify' ? 'MOD' : command === 'delete' ? 'DEL' : `command ${command}`;
  return [word, printMeterHead(id, flags), ...bands.map((band) => printBand(band, flags))].join(' ');
}

const NO_COOKIE = ALL_ONES;
const reasonWords: Readonly<Record<string, string>> = {
  noMatch: 'no_match',
  action: 'action',
  invalidTtl: 'invalid_ttl',
  actionSet: 'action_set',
  group: 'group',
  packetOut: 'packet_out',
};

interface AnyPacketIn {
  readonly table?: number;
  readonly cookie?: bigint;
  readonly reason?: string | number;
  readonly fields?: Match;
  readonly fullLength?: number;
  readonly buffer?: number;
  readonly userdata?: Uint8Array;
  readonly continuation?: Uint8Array;
  readonly data?: Uint8Array;
}

function printPacketIn(packet: AnyPacketIn, { names }: MessageContext): string {
  const { table = 0, cookie = NO_COOKIE, reason = 'noMatch', fields = {}, data = new Uint8Array(0) } = packet;
  const parts: string[] = [];
  if (table !== 0) parts.push(`table_id=${names.table?.(table) ?? table}`);
  if (cookie !== NO_COOKIE) parts.push(`cookie=0x${cookie.toString(16)}`);
  parts.push(
    `total_len=${packet.fullLength ?? data.length}`,
    printMatch(fields, names).join(','),
    `(via ${reasonWords[reason] ?? reason})`,
  );
  parts.push(
    `data_len=${data.length}`,
    packet.buffer === undefined || packet.buffer === 0xffff_ffff ? '(unbuffered)' : `buffer=0x${packet.buffer.toString(16)}`,
  );
  if (packet.userdata !== undefined) parts.push(`userdata=${hexText(packet.userdata, '.')}`);
  if (packet.continuation !== undefined) parts.push(`continuation=${hexText(packet.continuation, '')}`);
  return [...parts, `data=${hexText(data, '')}`].filter((part) => part !== '').join(' ');
}

function printPacketOut({ fields, actions, data }: BodyOf<'packetOut'>, { names }: MessageContext): string {
  return `${printMatch(fields, names).join(',')} actions=${printActions(actions, names)} data_len=${data.length} data=${hexText(data, '')}`;
}

const removedWords: Readonly<Record<string, string>> = {
  idleTimeout: 'idle',
  hardTimeout: 'hard',
  delete: 'delete',
  groupDelete: 'group_delete',
  meterDelete: 'meter_delete',
  eviction: 'eviction',
};

export function removedReason(reason: string | number): string {
  return removedWords[reason] ?? String(reason);
}

function printRemoved(flow: FlowRemovedBody, { names, version }: MessageContext): string {
  const { packets = 0n, bytes = 0n, durationNs = 0n } = flow.statistics;
  const parts = [flowText(flow.match, undefined, names, version, [`priority=${flow.priority}`]), `reason=${removedReason(flow.reason)}`];
  if (flow.table !== 0) parts.push(`table_id=${names.table?.(flow.table) ?? flow.table}`);
  if (flow.cookie !== 0n) parts.push(`cookie:0x${flow.cookie.toString(16)}`);
  if (flow.hardTimeout !== 0) parts.push(`hard${flow.hardTimeout}`);
  parts.push(`duration${secondsText(durationNs)}s`, `idle${flow.idleTimeout}`, `pkts${packets}`, `bytes${bytes}`);
  return parts.join(' ');
}

const configWords = ['PORT_DOWN', 'NO_STP', 'NO_RECV', 'NO_RECV_STP', 'NO_FLOOD', 'NO_FWD', 'NO_PACKET_IN'];
const stateWords = ['LINK_DOWN', 'BLOCKED', 'LIVE'];
const featureWords = [
  '10MB-HD', '10MB-FD', '100MB-HD', '100MB-FD', '1GB-HD', '1GB-FD', '10GB-FD', '40GB-FD', '100GB-FD', '1TB-FD', 'OTHER',
  'COPPER', 'FIBER', 'AUTO_NEG', 'AUTO_PAUSE', 'AUTO_PAUSE_ASYM',
]; // biome-ignore format: a list

export function printPortDescription(port: PortDescription, names: TextNames): string {
  const parts = [`${printPort(port.number, names)}(${JSON.stringify(port.name).slice(1, -1)}): addr:${printMac(port.address)}`];
  parts.push(`config: ${bitsText(port.config, configWords)}`, `state: ${bitsText(port.state, stateWords)}`);
  const { ethernet } = port;
  if (ethernet === undefined) return parts.join(' ');
  if (ethernet.current !== 0) parts.push(`current: ${bitsText(ethernet.current, featureWords)}`);
  if (ethernet.advertised !== 0) parts.push(`advertised: ${bitsText(ethernet.advertised, featureWords)}`);
  if (ethernet.supported !== 0) parts.push(`supported: ${bitsText(ethernet.supported, featureWords)}`);
  if (ethernet.peer !== 0) parts.push(`peer: ${bitsText(ethernet.peer, featureWords)}`);
  parts.push(`speed: ${Math.floor(ethernet.currentKbps / 1000)} Mbps now, ${Math.floor(ethernet.maxKbps / 1000)} Mbps max`);
  return parts.join(' ');
}

const portReasonWords: Readonly<Record<string, string>> = { add: 'ADD', delete: 'DEL', modify: 'MOD' };

/** Changes of the switch, and its unsolicited messages. */
export const changePrinters: MessagePrinters = {
  flowMod: printFlowMod,
  groupMod: printGroupMod,
  meterMod: printMeterMod,
  packetIn: printPacketIn,
  packetIn2: printPacketIn,
  niciraPacketIn: ({ oxmFields, ...packet }, context) => printPacketIn({ ...packet, fields: decodeOxmFields(oxmFields) }, context),
  resume: printPacketIn,
  packetOut: printPacketOut,
  flowRemoved: printRemoved,
  portStatus: ({ reason, port }, { names }) => `${portReasonWords[reason] ?? reason}: ${printPortDescription(port, names)}`,
  portMod: ({ port, address, config, mask, advertise }, { names }) =>
    [
      `port: ${printPort(port, names)}: addr:${printMac(address)}`,
      `config: ${bitsText(config & mask, configWords)} mask: ${bitsText(mask, configWords)}`,
      `advertise: ${advertise === undefined ? 'UNCHANGED' : bitsText(advertise, featureWords)}`,
    ].join(' '),
  tableMod: ({ table, config, eviction, vacancy }, { names, version }) => {
    const parts = [`table_id=${table === 0xff ? 'ALL' : (names.table?.(table) ?? table)}`];
    if (version === 4) return [...parts, ...(config === 0 ? [] : [`flow_miss_config=${config}`])].join(', ');
    parts.push(`eviction=${(config & 4) !== 0 ? 'on' : 'off'}`, `vacancy=${(config & 8) !== 0 ? 'on' : 'off'}`);
    if (eviction !== undefined) parts.push(`eviction_flags=${bitsText(eviction, ['OTHER', 'IMPORTANCE', 'LIFETIME'], '|')}`);
    if (vacancy !== undefined) parts.push(`vacancy:${vacancy.down},${vacancy.up}`);
    return parts.join(', ');
  },
};
