import type { Action, SetFieldAction } from '../actions/action.ts';
import type { Instructions } from '../flows/instructions.ts';
import type { FieldName } from '../match/fields.ts';
import type { Match } from '../match/match.ts';
import { isMasked, requireField } from '../match/oxm.ts';
import type { ActionContext } from './action-context.ts';
import { parseDecap, parseEncap } from './encap-text.ts';
import { parseController, parseCt, parseLearn, parseSample } from './parse-large-action.ts';
import { fieldCalled, parseFieldValue, parsePort, parseSubfield, parseTable, portOf, subfieldOf, type TextNumbers } from './parse-value.ts';
import { badText, callOf, cutAt, parseBigint, parseBytes, parseNumber, splitTop } from './scan.ts';
import { parseMembers, parseMultipath } from './spread-text.ts';

const maxDepth = 32;

/** @throws SeineError `INVALID_INPUT` */
export function parseInstructions(text: string, match: Match, numbers: TextNumbers = {}): Instructions {
  const context = contextAt(0, match, numbers);
  const apply: Action[] = [];
  let rest: Instructions = {};
  for (const part of splitTop(text, ',')) {
    const instruction = parseInstruction(part, context);
    if (instruction === undefined) apply.push(...parseAction(part, context));
    else rest = { ...rest, ...instruction };
  }
  return apply.length === 0 ? rest : { apply, ...rest };
}

function parseInstruction(part: string, context: ActionContext): Instructions | undefined {
  if (part === 'clear_actions') return { clearActions: true };
  const { before, after = '' } = cutAt(part, ':');
  if (before === 'goto_table') return { gotoTable: parseTable(after, context.numbers) };
  if (before === 'write_metadata') {
    const { before: value, after: mask } = cutAt(after, '/');
    return {
      writeMetadata: {
        value: parseBigint(value, 64, part),
        mask: mask === undefined ? 0xffff_ffff_ffff_ffffn : parseBigint(mask, 64, part),
      },
    };
  }
  const call = callOf(part);
  if (call?.name === 'write_actions') return { write: context.nested(call.inside) };
  if (call?.name === 'apply_actions') return { apply: context.nested(call.inside) };
  return undefined;
}

/** Parses a comma-separated list; `drop` or nothing is the empty list. @throws SeineError `INVALID_INPUT` */
export function parseActions(text: string, numbers: TextNumbers = {}): Action[] {
  return contextAt(0, {}, numbers).nested(text);
}

function contextAt(depth: number, match: Match, numbers: TextNumbers, vlan = { present: isTagged(match) }): ActionContext {
  return {
    match,
    numbers,
    vlan,
    nested: (text) => {
      if (depth > maxDepth) throw badText('actions nested too deep', text);
      const deeper = contextAt(depth + 1, match, numbers, vlan);
      return splitTop(text, ',').flatMap((part) => parseAction(part, deeper));
    },
  };
}

function isTagged({ vlan_vid: vid, vlan_tci: tci }: Match): boolean {
  const given = vid ?? tci;
  if (given === undefined) return false;
  return ((isMasked(given) ? given.value & given.mask : given) & 0x1000) !== 0;
}

/** @returns no action for `drop`, several for a word that abbreviates several */
function parseAction(part: string, context: ActionContext): readonly Action[] {
  const actions = parseSeveral(part, context) ?? parseOne(part, context);
  for (const { kind } of actions) {
    if (kind === 'pushVlan') context.vlan.present = true;
    else if (kind === 'popVlan') context.vlan.present = false;
  }
  return actions;
}

/** Words of OpenFlow 1.0 that are several actions in later versions. */
function parseSeveral(part: string, context: ActionContext): readonly Action[] | undefined {
  const [word = '', first = '', second = '', ...more] = part.split(/[:(,)]/).map((each) => each.trim());
  if (word === 'enqueue' && more.every((each) => each === '')) {
    const queue = parseNumber(second, 0xffff_ffff, 'queue');
    return [
      { kind: 'setQueue', queue },
      { kind: 'output', port: parsePort(first, context.numbers), maxLength: 0xffff },
      { kind: 'popQueue' },
    ];
  }
  if (word !== 'mod_vlan_vid' && word !== 'mod_vlan_pcp') return undefined;
  const push: Action[] = context.vlan.present ? [] : [{ kind: 'pushVlan', etherType: 0x8100 }];
  if (word === 'mod_vlan_pcp') return [...push, { kind: 'setField', field: 'vlan_pcp', value: parseNumber(first, 7, word) }];
  return [...push, { kind: 'setField', field: 'vlan_vid', value: parseNumber(first, 0xfff, word) + 0x1000 }];
}

function parseOne(part: string, context: ActionContext): readonly Action[] {
  if (part === 'drop') return [];
  const call = callOf(part);
  const named = call && calls[call.name]?.(call.inside, context);
  if (named !== undefined) return [named];
  const { before, after } = cutAt(part, ':');
  const action = after === undefined ? words[before] : withArgument[before]?.(after, context);
  if (action !== undefined) return [action];
  return [parseArrow(part, context) ?? { kind: 'output', port: parsePort(part, context.numbers) }];
}

/** Parses `check_pkt_larger(1450)->NXM_NX_REG0[0]`: a call with a destination. */
function parseArrow(part: string, context: ActionContext): Action | undefined {
  const { before, after } = cutAt(part, '->');
  const call = after === undefined ? undefined : callOf(before);
  if (call?.name === 'check_pkt_larger' && after !== undefined) {
    return { kind: 'checkPacketLarger', bytes: parseNumber(call.inside, 0xffff, 'length'), to: parseSubfield(after) };
  }
  const controller = /^controller:(\d+)$/i.exec(part)?.[1];
  return controller === undefined ? undefined : parseController(`max_len=${controller}`, context);
}

const words: Readonly<Record<string, Action>> = {
  ct_clear: { kind: 'ctClear' },
  dec_ttl: { kind: 'decTtl' },
  pop_vlan: { kind: 'popVlan' },
  strip_vlan: { kind: 'popVlan' },
  exit: { kind: 'exit' },
  pop_queue: { kind: 'popQueue' },
  dec_mpls_ttl: { kind: 'decMplsTtl' },
  dec_nsh_ttl: { kind: 'decNshTtl' },
  copy_ttl_out: { kind: 'copyTtlOut' },
  copy_ttl_in: { kind: 'copyTtlIn' },
  pop_pbb: { kind: 'popPbb' },
  decap: { kind: 'decap' },
  controller: { kind: 'output', port: 0xffff_fffd, maxLength: 0xffff },
  CONTROLLER: { kind: 'output', port: 0xffff_fffd, maxLength: 0xffff },
  ct: { kind: 'ct', commit: false, zone: 0, exec: [] },
};

type Parse = (text: string, context: ActionContext) => Action;

const withArgument: Readonly<Record<string, Parse>> = {
  output: (text, { numbers }) => parseOutput(text, numbers),
  group: (text) => ({ kind: 'group', group: parseNumber(text, 0xffff_ffff, 'group') }),
  meter: (text) => ({ kind: 'meter', meter: parseNumber(text, 0xffff_ffff, 'meter') }),
  set_field: (text, { numbers }) => parseSetField(text, numbers),
  load: (text) => {
    const { before, after = '' } = cutAt(text, '->');
    const to = parseSubfield(after);
    return { kind: 'load', to, value: to.bits > 48 ? parseBigint(before, to.bits, 'load') : parseNumber(before, 2 ** to.bits - 1, 'load') };
  },
  move: (text) => {
    const { before, after = '' } = cutAt(text, '->');
    return { kind: 'move', from: parseSubfield(before), to: parseSubfield(after) };
  },
  resubmit: (text, { numbers }) => ({ kind: 'resubmit', port: parsePort(text, numbers) }),
  push_vlan: (text) => ({ kind: 'pushVlan', etherType: parseNumber(text, 0xffff, 'EtherType') }),
  push_mpls: (text) => ({ kind: 'pushMpls', etherType: parseNumber(text, 0xffff, 'EtherType') }),
  pop_mpls: (text) => ({ kind: 'popMpls', etherType: parseNumber(text, 0xffff, 'EtherType') }),
  push_pbb: (text) => ({ kind: 'pushPbb', etherType: parseNumber(text, 0xffff, 'EtherType') }),
  delete_field: (text) => ({ kind: 'deleteField', field: fieldCalled(text) ?? noField(text) }),
  note: (text) => ({ kind: 'note', bytes: padNote(parseBytes(text, 'note')) }),
  push: (text) => ({ kind: 'push', from: parseSubfield(text) }),
  pop: (text) => ({ kind: 'pop', to: parseSubfield(text) }),
  set_queue: (text) => ({ kind: 'setQueue', queue: parseNumber(text, 0xffff_ffff, 'queue') }),
  mod_nw_ttl: (text) => ({ kind: 'setTtl', ttl: parseNumber(text, 255, 'TTL') }),
  mod_dl_src: (text, { numbers }) => setField('eth_src', text, numbers),
  mod_dl_dst: (text, { numbers }) => setField('eth_dst', text, numbers),
  mod_nw_src: (text, { numbers }) => setField('ip_src', text, numbers),
  mod_nw_dst: (text, { numbers }) => setField('ip_dst', text, numbers),
  mod_nw_ecn: (text, { numbers }) => setField('ip_ecn', text, numbers),
  mod_nw_tos: (text, { numbers }) => setField('ip_dscp', String(parseNumber(text, 255, 'TOS') >>> 2), numbers),
  mod_tp_src: (text, context) => setField(transportField(context.match, 'src'), text, context.numbers),
  mod_tp_dst: (text, context) => setField(transportField(context.match, 'dst'), text, context.numbers),
  set_tunnel: (text, { numbers }) => setField('tun_id', text, numbers),
  set_tunnel64: (text, { numbers }) => setField('tun_id', text, numbers),
};

function noField(text: string): never {
  throw badText('no such field', text);
}

const calls: Readonly<Record<string, (text: string, context: ActionContext) => Action | undefined>> = {
  ct: parseCt,
  learn: parseLearn,
  multipath: parseMultipath,
  bundle: (inside, { numbers }) => parseMembers(inside, numbers, false),
  bundle_load: (inside, { numbers }) => parseMembers(inside, numbers, true),
  encap: parseEncap,
  decap: parseDecap,
  set_mpls_ttl: (inside) => ({ kind: 'setMplsTtl', ttl: parseNumber(inside, 255, 'TTL') }),
  set_mpls_label: (inside, { numbers }) => setField('mpls_label', inside, numbers),
  set_mpls_tc: (inside, { numbers }) => setField('mpls_tc', inside, numbers),
  controller: parseController,
  sample: parseSample,
  clone: (inside, context) => ({ kind: 'clone', actions: context.nested(inside) }),
  conjunction: (inside) => {
    const [, id = '', clause = '', of = ''] = /^(\w+),\s*(\d+)\s*\/\s*(\d+)$/.exec(inside) ?? [];
    return {
      kind: 'conjunction',
      id: parseNumber(id, 0xffff_ffff, 'conjunction'),
      clause: parseNumber(clause, 64, 'clause'),
      of: parseNumber(of, 64, 'clauses'),
    };
  },
  dec_ttl: (inside) => ({
    kind: 'decTtlControllers',
    controllers: splitTop(inside, ',').map((id) => parseNumber(id.replace(/^id\d*=/, ''), 0xffff, 'controller')),
  }),
  fin_timeout: (inside) => {
    const given = new Map(splitTop(inside, ',').map((part) => [cutAt(part, '=').before, cutAt(part, '=').after ?? ''] as const));
    const seconds = (name: string) => parseNumber(given.get(name) ?? '0', 0xffff, name);
    return { kind: 'finTimeout', idleTimeout: seconds('idle_timeout'), hardTimeout: seconds('hard_timeout') };
  },
  resubmit: (inside, { numbers }) => {
    const [port = '', table = '', tracked] = inside.split(',').map((part) => part.trim());
    if (tracked !== undefined && tracked !== 'ct') throw badText('resubmit', inside);
    return {
      kind: 'resubmit',
      ...(port === '' ? {} : { port: parsePort(port, numbers) }),
      ...(table === '' ? {} : { table: parseTable(table, numbers) }),
      ...(tracked === undefined ? {} : { withTracked: true }),
    };
  },
  output: (inside, { numbers }) => {
    const [, port = '', length = ''] = /^port=([^,]+),max_len=(\d+)$/.exec(inside) ?? [];
    return { kind: 'outputTruncated', port: parsePort(port, numbers), maxLength: parseNumber(length, 0xffff_ffff, 'max_len') };
  },
};

function parseOutput(text: string, numbers: TextNumbers): Action {
  const port = portOf(text, numbers);
  if (port !== undefined) return { kind: 'output', port };
  const from = subfieldOf(text);
  if (from === undefined) throw badText('no such port', text);
  return { kind: 'outputRegister', from, maxLength: 0xffff };
}

function parseSetField(text: string, numbers: TextNumbers): SetFieldAction {
  const at = text.lastIndexOf('->');
  const field = at < 0 ? undefined : fieldCalled(text.slice(at + 2));
  if (field === undefined) throw badText('set_field of no field', text);
  return setField(field, text.slice(0, at), numbers);
}

function setField(field: FieldName, text: string, numbers: TextNumbers): SetFieldAction {
  const { value, mask } = parseFieldValue(field, text, numbers);
  const isWhole = mask === undefined || mask === requireField(field).fullNumber || mask === requireField(field).fullBigint;
  return { kind: 'setField', field, value, ...(isWhole ? {} : { mask }) } as SetFieldAction; // the field's row determines the type that was parsed
}

function transportField(match: Match, side: 'src' | 'dst'): FieldName {
  switch (match.ip_proto) {
    case 17:
      return `udp_${side}`;
    case 132:
      return `sctp_${side}`;
    default:
      return `tcp_${side}`;
  }
}

/** The wire carries 6 bytes, or a multiple of 8 more; the rest is zero. */
function padNote(bytes: Uint8Array): Uint8Array {
  const padded = new Uint8Array(6 + 8 * Math.max(0, Math.ceil((bytes.length - 6) / 8)));
  padded.set(bytes);
  return padded;
}
