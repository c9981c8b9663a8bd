/** A number that an agent allocates, and that another agent may allocate differently. */
export interface NumberCut {
  readonly kind: 'port' | 'group' | 'meter' | 'class' | 'fine' | 'coarse' | 'decision' | 'cookie';
  /** Classes and peers have numbers of each direction. */
  readonly of: 'egress' | 'ingress' | '';
  readonly value: number | string;
}

/** A line split at allocated numbers: text and numbers. */
export type Cut = readonly (string | NumberCut)[];

/** Lower ports exist on every node: tunnel and gateway (docs/design/pipeline.md). */
const firstPodPort = 32_784;
/** A pod without a decision has class 1; number 0 is never allocated. */
const firstClass = 2;

interface Field {
  readonly from: number;
  readonly bits: number;
  readonly kind: NumberCut['kind'];
  readonly of?: NumberCut['of'];
  readonly first: number;
  /** True if only in the tables of policy; elsewhere this register has an address. */
  readonly policyOnly?: true;
}

const whole = { from: 0, bits: 32 };
const fine = { from: 0, bits: 20, kind: 'fine', first: 1 } as const;
const coarse = { from: 20, bits: 12, kind: 'coarse', first: 1 } as const;

/** Registers and connection marks with allocated numbers, from docs/design/pipeline.md. */
const registers: Readonly<Record<string, readonly Field[]>> = {
  reg1: [{ ...whole, kind: 'port', first: firstPodPort }],
  reg7: [{ ...whole, kind: 'group', first: 1 }],
  ct_mark: [{ from: 8, bits: 16, kind: 'port', first: firstPodPort }],
  reg8: [
    { ...fine, of: 'ingress' },
    { ...coarse, of: 'ingress' },
  ],
  reg9: [
    { ...fine, of: 'egress' },
    { ...coarse, of: 'egress' },
  ],
  reg12: [{ ...whole, kind: 'decision', first: 1, policyOnly: true }],
  reg13: [{ from: 11, bits: 11, kind: 'class', first: firstClass, policyOnly: true }],
};

const policyTables = { egress: [36, 46], ingress: [80, 90] } as const;

/** Notations of a number: `name=5`, `name:5`; or a register's value, matched or set. */
const written =
  /(?<word>in_port=|in_port:|output:|ofport=|ofport_request=|group:|group_id=|meter:|meter=|meter_id=)(?<number>\d+)|(?<matched>reg\d+|ct_mark)=(?<value>0x[0-9a-f]+|\d+)(?:\/(?<mask>0x[0-9a-f]+))?|set_field:(?<set>0x[0-9a-f]+|\d+)(?:\/(?<setMask>0x[0-9a-f]+))?->(?<target>reg\d+)/g;

/** Splits a line of `ovs-ofctl`, or of a snapshot, at the allocated numbers. */
export function cut(line: string): Cut {
  const parts: (string | NumberCut)[] = [];
  const cookie = cookieNumber(line);
  const matches = directionOf(Number(/table=(\d+)/.exec(line)?.[1] ?? 0));
  const loads = directionLedTo(line) ?? matches;
  let at = 0;
  if (cookie !== undefined) {
    at = cookie.end;
    parts.push(line.slice(0, cookie.start), cookie.allocated);
  }
  for (const found of line.matchAll(written)) {
    parts.push(line.slice(at, found.index), ...partsOf(found.groups ?? {}, found.groups?.['target'] === undefined ? matches : loads));
    at = found.index + found[0].length;
  }
  parts.push(line.slice(at));
  return parts;
}

/**
 * Owners of policy rows that match numbers of peers, classes and decisions are named by these numbers, and a cookie is a hash of the owner
 * of a row.
 */
function cookieNumber(line: string): { readonly start: number; readonly end: number; readonly allocated: NumberCut } | undefined {
  const found = /cookie=(0x[0-9a-f]+), table=(?:4[23]|8[67]),.*\b(?:reg8|reg9|reg12|reg13)=.* actions=/.exec(line);
  const [, value = ''] = found ?? [];
  if (found === null) return undefined;
  const start = found.index + 'cookie='.length;
  return { start, end: start + value.length, allocated: { kind: 'cookie', of: '', value } };
}

function partsOf(groups: Readonly<Record<string, string | undefined>>, direction: NumberCut['of']): (string | NumberCut)[] {
  const { word, number, matched, value, mask, set, setMask, target } = groups;
  if (word !== undefined) return [word, namedNumber(word, Number(number))];
  const register = matched ?? target ?? '';
  const fields = fieldsOf(register, Number(value ?? set), Number(mask ?? setMask ?? 0xffff_ffff), direction);
  return matched === undefined ? ['set_field:', ...fields, `->${register}`] : [`${register}=`, ...fields];
}

function namedNumber(word: string, value: number): string | NumberCut {
  if (word.startsWith('group')) return { kind: 'group', of: '', value };
  if (word.startsWith('meter')) return { kind: 'meter', of: '', value };
  return value < firstPodPort || value > 65_279 ? String(value) : { kind: 'port', of: '', value };
}

/** The rest of the value without its fields, its mask, and the fields. */
function fieldsOf(register: string, value: number, mask: number, direction: NumberCut['of']): (string | NumberCut)[] {
  const allocated: NumberCut[] = [];
  let rest = value;
  for (const { from, bits, kind, of, first, policyOnly } of registers[register] ?? []) {
    if (policyOnly && direction === '') continue;
    const size = 2 ** bits;
    const held = Math.floor(value / 2 ** from) % size;
    if (Math.floor(mask / 2 ** from) % size !== size - 1 || held < first) continue;
    if (kind === 'port' && held > 65_279) continue;
    const direct = policyOnly ? direction : (of ?? '');
    allocated.push({ kind, of: direct, value: held });
    rest -= held * 2 ** from;
  }
  return [`0x${rest.toString(16)}/0x${mask.toString(16)}`, ...allocated.flatMap((each): (string | NumberCut)[] => [`+${each.kind}`, each])];
}

/** Direction of allocated numbers: for answers the entry of one direction uses the tables of the other. */
function directionLedTo(line: string): NumberCut['of'] | undefined {
  const tables = [...line.matchAll(/goto_table:(\d+)|resubmit\(,(\d+)/g)].map(([, to, again]) => directionOf(Number(to ?? again)));
  return tables.findLast((direction) => direction !== '');
}

function directionOf(table: number): NumberCut['of'] {
  for (const [direction, [first, last]] of Object.entries(policyTables))
    if (table >= first && table <= last) return direction as keyof typeof policyTables;
  return '';
}
