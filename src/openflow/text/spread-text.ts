import {
  type ActionOf,
  type BundleMembersAction,
  type HashFields,
  hashFields,
  type MemberAlgorithm,
  type MultipathAlgorithm,
  memberAlgorithms,
  multipathAlgorithms,
} from '../actions/action.ts';
import { parsePort, parseSubfield, type TextNumbers } from './parse-value.ts';
import { badText, parseNumber, splitTop } from './scan.ts';
import { printSubfield } from './subfield-text.ts';
import { printPort, type TextNames } from './value-text.ts';

export function printMultipath({ fields, basis, algorithm, links, argument, to }: ActionOf<'multipath'>): string {
  return `multipath(${fields},${basis},${algorithm},${links},${argument},${printSubfield(to)})`;
}

export function printMembers({ algorithm, fields, basis, to, members }: BundleMembersAction, names: TextNames): string {
  const ports = members.map((port) => printPort(port, names)).join(',');
  const target = to === undefined ? '' : `,${printSubfield(to)}`;
  return `bundle${to === undefined ? '' : '_load'}(${fields},${basis},${algorithm},ofport${target},members:${ports})`;
}

/** Parses the inside of `multipath(…)`. */
export function parseMultipath(inside: string): ActionOf<'multipath'> {
  const [fields = '', basis = '', algorithm = '', links = '', argument = '', to = '', ...more] = splitTop(inside, ', ');
  if (more.length > 0 || to === '') throw badText('multipath has six parts', inside);
  return {
    kind: 'multipath',
    fields: wordOf(hashFields, fields),
    basis: parseNumber(basis, 0xffff, 'basis'),
    algorithm: wordOf(multipathAlgorithms, algorithm),
    links: parseNumber(links, 0x10000, 'links'),
    argument: parseNumber(argument, 0xffff_ffff, 'argument'),
    to: parseSubfield(to),
  };
}

/** Parses the inside of `bundle(…)` and, with a register before the members, `bundle_load(…)`. */
export function parseMembers(inside: string, numbers: TextNumbers, loads: boolean): BundleMembersAction {
  const [, head = '', ports = ''] = /^(.*?),?\s*(?:members|slaves):(.*)$/.exec(inside) ?? [];
  const [fields = '', basis = '', algorithm = '', kind, to, ...more] = splitTop(head, ', ');
  if (kind !== 'ofport' || (to === undefined) === loads || more.length > 0) throw badText('bundle', inside);
  return {
    kind: 'bundleMembers',
    algorithm: wordOf(memberAlgorithms, algorithm),
    fields: wordOf(hashFields, fields),
    basis: parseNumber(basis, 0xffff, 'basis'),
    ...(to === undefined ? {} : { to: parseSubfield(to) }),
    members: splitTop(ports, ', ').map((port) => parsePort(port, numbers)),
  };
}

function wordOf<W extends HashFields | MultipathAlgorithm | MemberAlgorithm>(words: readonly W[], word: string): W {
  const found = words.find((each) => each === word);
  if (found === undefined) throw badText(`none of ${words.join(', ')}`, word);
  return found;
}
