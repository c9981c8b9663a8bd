import { isIp, parseIp } from '../../base/net/ip.ts';
import {
  type Action,
  type ControllerAction,
  type CtAction,
  type LearnAction,
  type LearnSpec,
  type NatAction,
  type PacketInReason,
  packetInReasons,
} from '../actions/action.ts';
import { requireField } from '../match/oxm.ts';
import type { ActionContext } from './action-context.ts';
import { fieldCalled, parseFieldValue, parsePort, parseSubfield, parseTable, subfieldOf } from './parse-value.ts';
import { badText, callOf, cutAt, parseBigint, parseBytes, parseNumber, splitTop } from './scan.ts';

const helperPorts: Readonly<Record<string, number>> = { ftp: 21, tftp: 69 };

/** Parses the inside of `ct(…)`. */
export function parseCt(inside: string, context: ActionContext): Action {
  let action: CtAction = { kind: 'ct', commit: false, zone: 0, exec: [] };
  for (const part of splitTop(inside, ',')) action = { ...action, ...parseCtPart(part, context) };
  return action;
}

function parseCtPart(part: string, context: ActionContext): Partial<CtAction> {
  if (part === 'commit') return { commit: true };
  if (part === 'force') return { force: true };
  if (part === 'nat') return { nat: {} };
  const call = callOf(part);
  if (call?.name === 'nat') return { nat: parseNat(call.inside) };
  if (call?.name === 'exec') return { exec: context.nested(call.inside) };
  const { before, after = '' } = cutAt(part, '=');
  if (before === 'table') return { table: parseTable(after, context.numbers) };
  if (before === 'zone') return { zone: subfieldOf(after) ?? parseNumber(after, 0xffff, 'zone') };
  if (before === 'alg') return { alg: helperPorts[after] ?? parseNumber(after, 0xffff, 'alg') };
  throw badText('part of ct', part);
}

function parseNat(inside: string): NatAction {
  let nat: NatAction = {};
  for (const part of splitTop(inside, ',')) {
    const { before, after } = cutAt(part, '=');
    if (before === 'src' || before === 'dst') nat = { ...nat, direction: before, ...(after === undefined ? {} : parseNatRange(after)) };
    else if (before === 'persistent' || before === 'hash' || before === 'random') nat = { ...nat, [before]: true };
    else throw badText('part of nat', part);
  }
  return nat;
}

/** Parses `a`, `a-b`, `a-b:80-90`, `[x]-[y]:80`, IPv6 without brackets where there are no ports. */
function parseNatRange(text: string): Pick<NatAction, 'addresses' | 'ports'> {
  const whole = text.split('-');
  if (whole.length <= 2 && whole.every(isIp)) return { addresses: natAddresses(text, whole) };
  const [, addresses = '', ports] = /^([\d.-]*|\[[^\]]+\](?:-\[[^\]]+\])?)(?::([\d-]+))?$/.exec(text) ?? badMatch('nat range', text);
  const [first = '', last] = addresses.replaceAll(/[[\]]/g, '').split('-');
  return {
    ...(first === '' ? {} : { addresses: natAddresses(text, last === undefined ? [first] : [first, last]) }),
    ...(ports === undefined ? {} : { ports: natPorts(ports) }),
  };
}

function badMatch(what: string, text: string): never {
  throw badText(what, text);
}

function natAddresses(text: string, ends: readonly string[]): NonNullable<NatAction['addresses']> {
  const [first, last] = ends.map((end) => (isIp(end) ? parseIp(end) : badMatch('nat address', text)));
  if (first === undefined) throw badText('nat address', text);
  if (last !== undefined && last.family !== first.family) throw badText('nat addresses of two families', text);
  if (first.family === 'ipv6') return { family: 'ipv6', first: first.value, ...(last === undefined ? {} : { last: last.value }) };
  return { family: 'ipv4', first: Number(first.value), ...(last === undefined ? {} : { last: Number(last.value) }) };
}

function natPorts(text: string): NonNullable<NatAction['ports']> {
  const [first = '', last] = text.split('-');
  return { first: parseNumber(first, 0xffff, 'nat port'), ...(last === undefined ? {} : { last: parseNumber(last, 0xffff, 'nat port') }) };
}

const DEFAULT_PRIORITY = 0x8000;

/** Parses the inside of `learn(…)`. */
export function parseLearn(inside: string, context: ActionContext): Action {
  let action: LearnAction = { kind: 'learn', table: 1, priority: DEFAULT_PRIORITY, cookie: 0n, specs: [] };
  const specs: LearnSpec[] = [];
  for (const part of splitTop(inside, ',')) {
    const option = parseLearnOption(part, context);
    if (option === undefined) specs.push(parseSpec(part, context));
    else action = { ...action, ...option };
  }
  return { ...action, specs };
}

const learnNumbers = {
  idle_timeout: 'idleTimeout',
  hard_timeout: 'hardTimeout',
  fin_idle_timeout: 'finIdleTimeout',
  fin_hard_timeout: 'finHardTimeout',
  priority: 'priority',
} as const satisfies Readonly<Record<string, keyof LearnAction>>;

function parseLearnOption(part: string, context: ActionContext): Partial<LearnAction> | undefined {
  if (part === 'send_flow_rem') return { sendFlowRemoved: true };
  if (part === 'delete_learned') return { deleteLearned: true };
  const { before, after = '' } = cutAt(part, '=');
  if (before === 'table') return { table: parseTable(after, context.numbers) };
  if (before === 'cookie') return { cookie: parseBigint(after, 64, 'cookie') };
  if (before === 'limit') return { limit: parseNumber(after, 0xffff_ffff, 'limit') };
  if (before === 'result_dst') return { result: parseSubfield(after) };
  const number = before in learnNumbers ? learnNumbers[before as keyof typeof learnNumbers] : undefined; // checked by `in`
  return number && { [number]: parseNumber(after, 0xffff, before) };
}

function parseSpec(part: string, context: ActionContext): LearnSpec {
  if (part.startsWith('output:')) return { do: 'output', from: parseSubfield(part.slice('output:'.length)) };
  if (part.startsWith('load:')) return parseLoadSpec(part.slice('load:'.length));
  const { before, after } = cutAt(part, '=');
  const to = parseSubfield(before);
  if (after === undefined) return { do: 'match', to, from: to };
  const from = subfieldOf(after);
  if (from !== undefined) return { do: 'match', to, from: { ...from, bits: to.bits } };
  return { do: 'match', to, from: learnConstant(before, after, to.bits, context) };
}

function parseLoadSpec(text: string): LearnSpec {
  const { before, after = '' } = cutAt(text, '->');
  const to = parseSubfield(after);
  return { do: 'load', to, from: subfieldOf(before) ?? constant(before, to.bits) };
}

/** Parses a constant of `learn`: for a whole field in the field's format (addresses, flags), otherwise a number. */
function learnConstant(name: string, text: string, bits: number, context: ActionContext): number | bigint {
  const field = fieldCalled(name);
  if (field === undefined || requireField(field).subfieldBits !== bits) return constant(text, bits);
  const { value } = parseFieldValue(field, text, context.numbers);
  if (typeof value === 'object') throw badText('learn', text);
  return value;
}

function constant(text: string, bits: number): number | bigint {
  return bits > 48 ? parseBigint(text, bits, 'constant') : parseNumber(text, 2 ** bits - 1, 'constant');
}

const reasonNames = new Map<string, PacketInReason>(
  packetInReasons.map((reason) => [reason.replace(/[A-Z]/g, (upper) => `_${upper.toLowerCase()}`), reason]),
);

/** Parses the inside of `controller(…)`. With only a number of bytes it is an output to the port CONTROLLER. */
export function parseController(inside: string, _context: ActionContext): Action {
  const given: Record<string, unknown> = {};
  for (const part of splitTop(inside, ',')) Object.assign(given, parseControllerPart(part));
  const { maxLength = 0xffff, ...rest } = given as Omit<ControllerAction, 'kind'>; // each part has set a member of its type
  if (Object.keys(rest).length === 0) return { kind: 'output', port: 0xffff_fffd, maxLength };
  return { kind: 'controller', ...(maxLength === 0xffff ? {} : { maxLength }), ...rest };
}

function parseControllerPart(part: string): Partial<ControllerAction> {
  if (part === 'pause') return { pause: true };
  const { before, after = '' } = cutAt(part, '=');
  switch (before) {
    case 'max_len':
      return { maxLength: parseNumber(after, 0xffff, before) };
    case 'id':
      return zeroLeftOut('controller', parseNumber(after, 0xffff, before));
    case 'reason': {
      const reason = reasonNames.get(after) ?? badMatch('reason', part);
      return reason === 'action' ? {} : { reason };
    }
    case 'userdata':
      return { userdata: parseBytes(after, before) };
    case 'meter_id':
      return { meter: parseNumber(after, 0xffff_ffff, before) };
    default:
      throw badText('part of controller', part);
  }
}

function zeroLeftOut(name: 'controller', value: number): Partial<ControllerAction> {
  return value === 0 ? {} : { [name]: value };
}

/** Parses the inside of `sample(…)`. */
export function parseSample(inside: string, { numbers }: ActionContext): Action {
  const given = new Map(splitTop(inside, ',').map((part) => [cutAt(part, '=').before, cutAt(part, '=').after ?? ''] as const));
  const number = (name: string, max: number) => parseNumber(given.get(name) ?? '0', max, name);
  const port = given.get('sampling_port');
  const direction = given.has('ingress') ? 'ingress' : given.has('egress') ? 'egress' : undefined;
  return {
    kind: 'sample',
    probability: number('probability', 0xffff),
    collectorSet: number('collector_set_id', 0xffff_ffff),
    domain: number('obs_domain_id', 0xffff_ffff),
    point: number('obs_point_id', 0xffff_ffff),
    ...(port === undefined ? {} : { samplingPort: parsePort(port, numbers) }),
    ...(direction === undefined ? {} : { direction }),
  };
}
