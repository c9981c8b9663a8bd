import type { Action, ActionOf, ControllerAction, CtAction, KnownAction, LearnAction, LearnSpec, NatAction } from '../actions/action.ts';
import type { Instructions } from '../flows/instructions.ts';
import type { Subfield } from '../match/fields.ts';
import { requireField } from '../match/oxm.ts';
import { ofPort } from '../protocol.ts';
import { printDecap, printEncap } from './encap-text.ts';
import { fieldWord } from './field-names.ts';
import { printMembers, printMultipath } from './spread-text.ts';
import { printSubfield } from './subfield-text.ts';
import {
  hex,
  hexOrZero,
  hexText,
  isReservedPort,
  printFieldValue,
  printIpv4,
  printIpv6,
  printPort,
  printTable,
  type TextNames,
} from './value-text.ts';

/** Instructions of a flow, as `ovs-ofctl dump-flows` prints them after `actions=`: `drop` if there are none. */
export function printInstructions(instructions: Instructions, names: TextNames = {}): string {
  const { apply = [], clearActions, write, writeMetadata, gotoTable, unknown } = instructions;
  const parts = apply.map((action) => printAction(action, names));
  if (clearActions) parts.push('clear_actions');
  if (write !== undefined) parts.push(`write_actions(${printActions(write, names)})`);
  if (writeMetadata !== undefined) {
    const { value, mask } = writeMetadata;
    parts.push(`write_metadata:${hexOrZero(value)}${mask === 0xffff_ffff_ffff_ffffn ? '' : `/${hex(mask)}`}`);
  }
  if (gotoTable !== undefined) parts.push(`goto_table:${printTable(gotoTable, names)}`);
  if (unknown !== undefined) parts.push(`unknown(${hexText(unknown, '')})`);
  return parts.length === 0 ? 'drop' : parts.join(',');
}

/** Action list; `drop` if it is empty. */
export function printActions(actions: readonly Action[], names: TextNames = {}): string {
  return actions.length === 0 ? 'drop' : actions.map((action) => printAction(action, names)).join(',');
}

function printAction(action: Action, names: TextNames): string {
  if (action.kind === 'unknown')
    return action.means === undefined ? `unknown(${hexText(action.bytes, '')})` : printAction(action.means, names);
  const print = printers[action.kind] as (action: KnownAction, names: TextNames) => string; // the row's kind is the action's kind
  return print(action, names);
}

const printers: { readonly [K in KnownAction['kind']]: (action: ActionOf<K>, names: TextNames) => string } = {
  output: ({ port, maxLength }, names) => {
    if (port === ofPort.controller) return `CONTROLLER:${maxLength ?? 0}`;
    return isReservedPort(port) ? printPort(port, names) : `output:${printPort(port, names)}`;
  },
  outputRegister: ({ from }) => `output:${printSubfield(from)}`,
  outputTruncated: ({ port, maxLength }, names) => `output(port=${printPort(port, names)},max_len=${maxLength})`,
  group: ({ group }) => `group:${group}`,
  meter: ({ meter }) => `meter:${meter}`,
  setField: ({ field, value, mask }, names) => `set_field:${printFieldValue(field, value, mask, names)}->${fieldWord(field)}`,
  load: ({ to, value }) => `load:${hexOrZero(value)}->${printSubfield(to)}`,
  move: ({ from, to }) => `move:${printSubfield(from)}->${printSubfield(to)}`,
  resubmit: ({ port, table, withTracked }, names) => {
    if (port !== undefined && table === undefined && !withTracked) return `resubmit:${printPort(port, names)}`;
    const parts = [port === undefined ? '' : printPort(port, names), table === undefined ? '' : printTable(table, names)];
    return `resubmit(${[...parts, ...(withTracked ? ['ct'] : [])].join(',')})`;
  },
  ct: printCt,
  ctClear: () => 'ct_clear',
  learn: printLearn,
  conjunction: ({ id, clause, of }) => `conjunction(${id},${clause}/${of})`,
  controller: printController,
  decTtl: () => 'dec_ttl',
  decTtlControllers: ({ controllers }) => `dec_ttl(${controllers.join(',')})`,
  setTtl: ({ ttl }) => `mod_nw_ttl:${ttl}`,
  pushVlan: ({ etherType }) => `push_vlan:${etherTypeText(etherType)}`,
  popVlan: () => 'pop_vlan',
  note: ({ bytes }) => `note:${hexText(bytes, '.')}`,
  clone: ({ actions }, names) => `clone(${printActions(actions, names)})`,
  sample: ({ probability, collectorSet, domain, point, samplingPort, direction }, names) => {
    const parts = [`probability=${probability}`, `collector_set_id=${collectorSet}`, `obs_domain_id=${domain}`, `obs_point_id=${point}`];
    if (samplingPort !== undefined) parts.push(`sampling_port=${printPort(samplingPort, names)}`);
    if (direction !== undefined) parts.push(direction);
    return `sample(${parts.join(',')})`;
  },
  checkPacketLarger: ({ bytes, to }) => `check_pkt_larger(${bytes})->${printSubfield(to)}`,
  push: ({ from }) => `push:${printSubfield(from)}`,
  pop: ({ to }) => `pop:${printSubfield(to)}`,
  setQueue: ({ queue }) => `set_queue:${queue}`,
  popQueue: () => 'pop_queue',
  finTimeout: ({ idleTimeout, hardTimeout }) => `fin_timeout(idle_timeout=${idleTimeout},hard_timeout=${hardTimeout})`,
  exit: () => 'exit',
  pushMpls: ({ etherType }) => `push_mpls:${etherTypeText(etherType)}`,
  popMpls: ({ etherType }) => `pop_mpls:${etherTypeText(etherType)}`,
  setMplsTtl: ({ ttl }) => `set_mpls_ttl(${ttl})`,
  decMplsTtl: () => 'dec_mpls_ttl',
  copyTtlOut: () => 'copy_ttl_out',
  copyTtlIn: () => 'copy_ttl_in',
  pushPbb: ({ etherType }) => `push_pbb:${etherTypeText(etherType)}`,
  popPbb: () => 'pop_pbb',
  decNshTtl: () => 'dec_nsh_ttl',
  encap: printEncap,
  decap: printDecap,
  deleteField: ({ field }) => `delete_field:${fieldWord(field)}`,
  multipath: printMultipath,
  bundleMembers: printMembers,
};

function etherTypeText(etherType: number): string {
  return `0x${etherType.toString(16).padStart(4, '0')}`;
}

const helpers = new Map<number, string>([
  [21, 'ftp'],
  [69, 'tftp'],
]);

function printCt({ commit, force, zone, table, nat, alg, exec }: CtAction, names: TextNames): string {
  const parts: string[] = [];
  if (commit) parts.push('commit');
  if (force) parts.push('force');
  if (table !== undefined) parts.push(`table=${printTable(table, names)}`);
  if (typeof zone !== 'number') parts.push(`zone=${printSubfield(zone)}`);
  else if (zone !== 0) parts.push(`zone=${zone}`);
  if (nat !== undefined) parts.push(printNat(nat));
  if (exec.length > 0) parts.push(`exec(${printActions(exec, names)})`);
  if (alg !== undefined) parts.push(`alg=${helpers.get(alg) ?? alg}`);
  return `ct(${parts.join(',')})`;
}

function printNat({ direction, addresses, ports, persistent, hash, random }: NatAction): string {
  if (direction === undefined) return 'nat';
  const range = printNatAddresses(addresses, ports !== undefined) + printNatPorts(ports);
  const modes = [persistent && 'persistent', hash && 'hash', random && 'random'].filter((mode) => mode !== undefined);
  return `nat(${[range === '' ? direction : `${direction}=${range}`, ...modes].join(',')})`;
}

function printNatAddresses(addresses: NatAction['addresses'], hasPorts: boolean): string {
  if (addresses === undefined) return '';
  const { family, first, last } = addresses;
  const bracketed = (text: string) => (family === 'ipv6' && hasPorts ? `[${text}]` : text);
  const print = (value: number | bigint) => bracketed(typeof value === 'number' ? printIpv4(value) : printIpv6(value));
  return print(first) + (last === undefined ? '' : `-${print(last)}`);
}

function printNatPorts(ports: NatAction['ports']): string {
  return ports === undefined ? '' : `:${ports.first}${ports.last === undefined ? '' : `-${ports.last}`}`;
}

const DEFAULT_PRIORITY = 0x8000;

function printLearn(a: LearnAction, names: TextNames): string {
  const parts = [`table=${printTable(a.table, names)}`];
  if (a.idleTimeout !== undefined) parts.push(`idle_timeout=${a.idleTimeout}`);
  if (a.hardTimeout !== undefined) parts.push(`hard_timeout=${a.hardTimeout}`);
  if (a.finIdleTimeout !== undefined) parts.push(`fin_idle_timeout=${a.finIdleTimeout}`);
  if (a.finHardTimeout !== undefined) parts.push(`fin_hard_timeout=${a.finHardTimeout}`);
  if (a.priority !== DEFAULT_PRIORITY) parts.push(`priority=${a.priority}`);
  if (a.sendFlowRemoved) parts.push('send_flow_rem');
  if (a.deleteLearned) parts.push('delete_learned');
  if (a.cookie !== 0n) parts.push(`cookie=${hex(a.cookie)}`);
  if (a.limit !== undefined) parts.push(`limit=${a.limit}`);
  if (a.result !== undefined) parts.push(`result_dst=${printSubfield(a.result)}`);
  return `learn(${[...parts, ...a.specs.map((spec) => printSpec(spec, names))].join(',')})`;
}

function printSpec(spec: LearnSpec, names: TextNames): string {
  if (spec.do === 'output') return `output:${printSubfield(spec.from)}`;
  const { from, to } = spec;
  if (spec.do === 'load') return `load:${typeof from === 'object' ? printSubfield(from) : hexOrZero(from)}->${printSubfield(to)}`;
  if (typeof from !== 'object') return printConstantMatch(to, from, names);
  const isSame = from.field === to.field && from.offset === to.offset;
  return isSame ? printSubfield(to) : `${printSubfield(to)}=${printSubfield(from)}`;
}

function printConstantMatch(to: Subfield, value: number | bigint, names: TextNames): string {
  const field = requireField(to.field);
  if (to.offset !== 0 || to.bits !== field.subfieldBits) return `${printSubfield(to)}=${hexOrZero(value)}`;
  const wide = field.bits > 48 ? BigInt(value) : Number(value);
  return `${fieldWord(to.field)}=${printFieldValue(to.field, wide, undefined, names)}`;
}

/** Names of the reasons of a packet-in in the tools. */
const reasonWords = {
  noMatch: 'no_match',
  action: 'action',
  invalidTtl: 'invalid_ttl',
  actionSet: 'action_set',
  group: 'group',
  packetOut: 'packet_out',
} as const;

function printController(a: ControllerAction): string {
  const parts: string[] = [];
  if (a.reason !== undefined && a.reason !== 'action') parts.push(`reason=${reasonWords[a.reason]}`);
  if (a.maxLength !== undefined && a.maxLength !== 0xffff) parts.push(`max_len=${a.maxLength}`);
  if (a.controller !== undefined && a.controller !== 0) parts.push(`id=${a.controller}`);
  if (a.userdata !== undefined) parts.push(`userdata=${hexText(a.userdata, '.')}`);
  if (a.pause) parts.push('pause');
  if (a.meter !== undefined) parts.push(`meter_id=${a.meter}`);
  const isPlain = parts.length === 0 || (parts.length === 1 && parts[0]?.startsWith('max_len='));
  return isPlain ? `CONTROLLER:${a.maxLength ?? 0xffff}` : `controller(${parts.join(',')})`;
}
