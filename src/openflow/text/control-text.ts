import { ipFromValue } from '../../base/net/ip.ts';
import { offeredIn } from '../connection/hello.ts';
import { errorOf } from '../error-message.ts';
import type { Laid } from '../layout.ts';
import type { BodyOf } from '../message.ts';
import type { AsyncMasks } from '../messages/control.ts';
import type { tableDescription } from '../messages/table.ts';
import type { MessageContext, MessagePrinters } from './message-printers.ts';
import { bitsText } from './plain-text.ts';
import { printPort, type TextNames } from './value-text.ts';

const fragmentWords: readonly (string | undefined)[] = ['normal', 'drop', 'reassemble', 'nx-match'];

function printConfig({ fragments, missSendLength }: BodyOf<'setConfig'>): string {
  return `frags=${fragmentWords[fragments] ?? fragments} miss_send_len=${missSendLength}`;
}

function printPayload({ data }: BodyOf<'echoRequest'>): string {
  return `${data.length} bytes of payload`;
}

const capabilityWords = [
  'FLOW_STATS',
  'TABLE_STATS',
  'PORT_STATS',
  'GROUP_STATS',
  '',
  'IP_REASM',
  'QUEUE_STATS',
  '',
  'PORT_BLOCKED',
  'BUNDLES',
  'FLOW_MONITORING',
];

function printFeatures({ datapathId, tables, buffers, auxiliary, capabilities }: BodyOf<'featuresReply'>): string {
  const aux = auxiliary === 0 ? '' : `, auxiliary_id:${auxiliary}`;
  return `dpid:${datapathId.toString(16).padStart(16, '0')} n_tables:${tables}, n_buffers:${buffers}${aux} capabilities: ${bitsText(capabilities, capabilityWords)}`;
}

const bundleWords: Readonly<Record<string, string>> = {
  openRequest: 'OPEN_REQUEST',
  openReply: 'OPEN_REPLY',
  closeRequest: 'CLOSE_REQUEST',
  closeReply: 'CLOSE_REPLY',
  commitRequest: 'COMMIT_REQUEST',
  commitReply: 'COMMIT_REPLY',
  discardRequest: 'DISCARD_REQUEST',
  discardReply: 'DISCARD_REPLY',
};
const bundleFlags = ['atomic', 'ordered'];

/** Prints the text of a failed hello, or the start of the message that was refused. */
function printError(body: BodyOf<'error'>, { version, nested }: MessageContext): string {
  const { type, name, data } = errorOf(body, version);
  if (data.length === 0) return name;
  return `${name} ${type === 0 && body.type === 0 ? JSON.stringify(new TextDecoder().decode(data)) : nested(data)}`;
}

const packetInWords = ['no_match', 'action', 'invalid_ttl', 'action_set', 'group', 'packet_out'];
const asyncKinds = [
  ['PACKET_IN', 'packetIn', packetInWords],
  ['PORT_STATUS', 'portStatus', ['add', 'delete', 'modify']],
  ['FLOW_REMOVED', 'flowRemoved', ['idle', 'hard', 'delete', 'group_delete', 'meter_delete', 'eviction']],
  ['ROLE_STATUS', 'roleStatus', ['primary_request', 'configuration_changed', 'experimenter_data_changed']],
  ['TABLE_STATUS', 'tableStatus', ['', '', '', 'vacancy_down', 'vacancy_up']],
  ['REQUESTFORWARD', 'requestForward', ['group_mod_request', 'meter_mod_request']],
] as const;

function printAsync(masks: AsyncMasks): string {
  const side = (suffix: '' | 'Secondary') =>
    asyncKinds.map(([word, name, reasons]) => {
      const bits = masks[`${name}${suffix}`] ?? 0;
      return `${word}: ${bits === 0 ? '(off)' : bitsText(bits, reasons)}`;
    });
  return ['primary:', ...side(''), 'secondary:', ...side('Secondary')].join(' ');
}

const roleReasons: Readonly<Record<string, string>> = {
  primaryRequest: 'primary_request',
  configuration: 'configuration_changed',
  experimenter: 'experimenter_data_changed',
};

function printRole({ role, shortId, generation }: BodyOf<'roleRequest'>): string {
  const parts = [`role=${role === 'noChange' ? 'nochange' : role}`];
  if (generation !== 0n || role === 'primary' || role === 'secondary') parts.push(`generation_id=${generation}`);
  if (shortId !== 0 && shortId !== 0xffff) parts.push(`short_id=${shortId}`);
  return parts.join(' ');
}

export function printTableDescription({ table, config, properties }: Laid<typeof tableDescription>, names: TextNames): string {
  const { eviction, vacancy } = properties;
  const parts = [`table ${names.table?.(table) ?? table}:`, `eviction=${(config & 4) !== 0 ? 'on' : 'off'}`];
  parts.push(`eviction_flags=${bitsText(eviction ?? 0, ['OTHER', 'IMPORTANCE', 'LIFETIME'], '|')}`);
  parts.push(`vacancy=${(config & 8) !== 0 ? 'on' : 'off'}`);
  if (vacancy !== undefined) parts.push(`vacancy_down=${vacancy.down}% vacancy_up=${vacancy.up}% vacancy=${vacancy.vacancy}%`);
  return parts.join(' ');
}

const hexByte = (value: number) => `0x${value.toString(16).padStart(2, '0')}`;

function printMaps(maps: BodyOf<'tlvTableMod'>['maps']): string {
  const each = maps.map(
    ({ optionClass, optionType, optionBytes, index }) =>
      `0x${optionClass.toString(16)} 0x${optionType.toString(16)} ${optionBytes} tun_metadata${index}`,
  );
  return ['class type length match field', '------ ---- ------ --------------', ...each].join(' ').replaceAll(/ 0x0 /g, ' 0 ');
}

const tlvCommands: Readonly<Record<string, string>> = { add: 'ADD', delete: 'DEL', clear: 'CLEAR' };

type FlushTuple = BodyOf<'flushTuple'>['original'];

function printTuple(tuple: FlushTuple, ipProtocol: number | undefined): string {
  const { src, dst, srcPort = 0, dstPort = 0, icmpId, icmpType, icmpCode } = tuple ?? {};
  const parts = [`ct_nw_src=${address(src)}`, `ct_nw_dst=${address(dst)}`];
  if (icmpId === undefined && icmpType === undefined && icmpCode === undefined) parts.push(`ct_tp_src=${srcPort}`, `ct_tp_dst=${dstPort}`);
  else parts.push(`icmp_id=${icmpId ?? 0}`, `icmp_type=${icmpType ?? 0}`, `icmp_code=${icmpCode ?? 0}`);
  if (ipProtocol !== undefined) parts.push(`ct_nw_proto=${ipProtocol}`);
  return `'${parts.join(',')}'`;
}

/** 16 bytes, with IPv4 addresses mapped into IPv6; an absent one is `::`. */
function address(bytes: Uint8Array | undefined): string {
  const value = (bytes ?? new Uint8Array(16)).reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
  return value >> 32n === 0xffffn ? ipFromValue('ipv4', value & 0xffff_ffffn).text : ipFromValue('ipv6', value & ((1n << 128n) - 1n)).text;
}

/** Sessions, configuration, roles, bundles, and messages of Open vSwitch. */
export const controlPrinters: MessagePrinters = {
  hello: ({ elements }, { version }) => `version bitmap: ${[...offeredIn(elements, version)].map(hexByte).join(', ')}`,
  error: printError,
  echoRequest: printPayload,
  echoReply: printPayload,
  featuresReply: printFeatures,
  getConfigReply: printConfig,
  setConfig: printConfig,
  roleRequest: printRole,
  roleReply: printRole,
  niciraRoleRequest: ({ role }) => `role=${role}`,
  niciraRoleReply: ({ role }) => `role=${role}`,
  getAsyncReply: printAsync,
  setAsync: printAsync,
  niciraSetAsync: printAsync,
  niciraSetAsync2: printAsync,
  roleStatus: ({ role, generation, reason }) => `role=${role} generation_id=${generation} reason=${roleReasons[reason] ?? reason}`,
  tableStatus: ({ reason, table }, { names }) =>
    `reason=${reason === 3 ? 'VACANCY_DOWN' : reason === 4 ? 'VACANCY_UP' : reason} table_desc:- ${printTableDescription(table, names)}`,
  requestForward: ({ message }, { nested }) => nested(message),
  bundleControl: ({ bundle, type, flags }) => `bundle_id=${bundle} type=${bundleWords[type] ?? type} flags=${bitsText(flags, bundleFlags)}`,
  bundleAdd: ({ bundle, flags, message }, { nested }) => `bundle_id=${bundle} flags=${bitsText(flags, bundleFlags)} ${nested(message)}`,
  queueConfigRequest: ({ port }, { names }) => `port=${printPort(port, names)}`,
  queueConfigReply: ({ port, queues }, { names }) =>
    queues.length === 0 ? '' : `port=${printPort(port, names)} queues=${Buffer.from(queues).toString('hex')}`,
  setPacketInFormat: ({ format }) => `format=${format}`,
  setControllerId: ({ id }) => `id=${id}`,
  flowModTableId: ({ enable }) => (enable === 0 ? 'disable' : 'enable'),
  flushZone: ({ zone }) => `zone_id=${zone}`,
  flushTuple: ({ ipProtocol, zone, original, reply }) =>
    [...(zone === undefined ? [] : [`zone=${zone}`]), printTuple(original, ipProtocol), printTuple(reply, undefined)].join(' '),
  tlvTableMod: ({ command, maps }) =>
    maps.length === 0 ? (tlvCommands[command] ?? String(command)) : `${tlvCommands[command] ?? command} mapping table: ${printMaps(maps)}`,
  tlvTableReply: ({ maxSpace, maxFields, maps }) => {
    const used = maps.reduce((sum, { optionBytes }) => sum + optionBytes, 0);
    return `max option space=${maxSpace} max fields=${maxFields} allocated option space=${used} mapping table: ${printMaps(maps)}`;
  },
  monitorCancel: ({ id }) => `id=${id}`,
};
