import type { ByteReader, ByteWriter } from '../../base/bytes/bytes.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { fieldWithHeader, type Subfield } from '../match/fields.ts';
import { shortHeader } from '../match/oxm.ts';
import type { LearnAction, LearnSpec } from './action.ts';
import type { ActionRows } from './codec.ts';

const SEND_FLOW_REMOVED = 1;
const DELETE_LEARNED = 2;
const WRITE_RESULT = 4;

const BITS_MASK = 0x7ff;
const DO_MATCH = 0;
const DO_LOAD = 0x800;
const DO_OUTPUT = 0x1000;
const DO_MASK = 0x1800;
const FROM_CONSTANT = 0x2000;

/**
 * `learn`: a flow that makes flows.
 *
 *     u16 idle, u16 hard, u16 priority, u64 cookie, u16 flags, u8 table, u8 zero, u16 FIN idle, u16 FIN hard
 *     NXAST_LEARN2 only: u32 limit, u16 result offset, u16 zero, and with the flag for it u32 result field header
 *     specs: u16 (bits | what to do | constant), source (u32 field header, u16 offset, or the constant in whole 16-bit
 *            units), destination (u32 field header, u16 offset) unless it is an output; a zero ends them
 *
 * Fields stand there with their Nicira header where they have one.
 */
export const learnRows: ActionRows<'learn'> = {
  learn: {
    wire: [{ nicira: 16 }, { nicira: 45 }],
    choose: (a) => (a.limit === undefined && a.result === undefined ? 0 : 1),
    source: 'NXAST_LEARN, NXAST_LEARN2; ovs-actions(7) "learn"',
    encode: (w, a) => {
      writeLearnHead(w, a);
      for (const spec of a.specs) writeSpec(w, spec);
    },
    decode: (r, _nested, form) => {
      const head = readLearnHead(r, form === 1);
      const specs = head && readSpecs(r);
      return head && specs && { ...head, specs };
    },
  },
};

function writeLearnHead(w: ByteWriter, a: LearnAction): void {
  w.u16(a.idleTimeout ?? 0)
    .u16(a.hardTimeout ?? 0)
    .u16(a.priority)
    .u64(a.cookie)
    .u16((a.sendFlowRemoved ? SEND_FLOW_REMOVED : 0) + (a.deleteLearned ? DELETE_LEARNED : 0) + (a.result ? WRITE_RESULT : 0))
    .u8(a.table)
    .u8(0)
    .u16(a.finIdleTimeout ?? 0)
    .u16(a.finHardTimeout ?? 0);
  if (a.limit === undefined && a.result === undefined) return;
  w.u32(a.limit ?? 0)
    .u16(a.result?.offset ?? 0)
    .u16(0);
  if (a.result !== undefined) w.u32(shortHeader(a.result.field));
}

function readLearnHead(r: ByteReader, second: boolean): Omit<LearnAction, 'specs'> | undefined {
  const [idleTimeout, hardTimeout, priority] = [r.u16(), r.u16(), r.u16()];
  const cookie = r.u64();
  const [flags, table] = [r.u16(), r.u8()];
  const [finIdleTimeout, finHardTimeout] = [r.skip(1).u16(), r.u16()];
  const limit = second ? r.u32() : 0;
  const result = second ? readResult(r, (flags & WRITE_RESULT) !== 0) : undefined;
  return {
    kind: 'learn',
    table,
    ...(idleTimeout === 0 ? {} : { idleTimeout }),
    ...(hardTimeout === 0 ? {} : { hardTimeout }),
    priority,
    cookie,
    ...(finIdleTimeout === 0 ? {} : { finIdleTimeout }),
    ...(finHardTimeout === 0 ? {} : { finHardTimeout }),
    ...(flags & SEND_FLOW_REMOVED ? { sendFlowRemoved: true } : {}),
    ...(flags & DELETE_LEARNED ? { deleteLearned: true } : {}),
    ...(limit === 0 ? {} : { limit }),
    ...(result === undefined ? {} : { result }),
  };
}

function readResult(r: ByteReader, present: boolean): Subfield | undefined {
  const offset = r.u16();
  r.skip(2);
  const field = present ? fieldWithHeader(r.u32()) : undefined;
  return field && { field: field.name, offset, bits: 1 };
}

function writeSpec(w: ByteWriter, spec: LearnSpec): void {
  if (spec.do === 'output') {
    w.u16(specHeader(DO_OUTPUT, spec.from.bits));
    writePart(w, spec.from);
    return;
  }
  const action = spec.do === 'match' ? DO_MATCH : DO_LOAD;
  if (typeof spec.from === 'object') {
    w.u16(specHeader(action, spec.to.bits));
    writePart(w, spec.from);
  } else {
    w.u16(specHeader(action + FROM_CONSTANT, spec.to.bits));
    writeConstant(w, BigInt(spec.from), spec.to.bits);
  }
  writePart(w, spec.to);
}

function specHeader(what: number, bits: number): number {
  if (bits < 1 || bits > BITS_MASK) throw new SeineError('INVARIANT', `a learned field of ${bits} bits`);
  return what + bits;
}

function writePart(w: ByteWriter, part: Subfield): void {
  w.u32(shortHeader(part.field)).u16(part.offset);
}

function writeConstant(w: ByteWriter, value: bigint, bits: number): void {
  if (value < 0n || value >> BigInt(bits) !== 0n) throw new SeineError('INVARIANT', `learn: ${value} does not fit in ${bits} bits`);
  for (let shift = 16 * (Math.ceil(bits / 16) - 1); shift >= 0; shift -= 16) w.u16(Number((value >> BigInt(shift)) & 0xffffn));
}

/** @returns `undefined` if a spec names a field without a row */
function readSpecs(r: ByteReader): LearnSpec[] | undefined {
  const specs: LearnSpec[] = [];
  while (r.remaining >= 2) {
    const header = r.u16();
    if (header === 0) break;
    const spec = readSpec(r, header);
    if (spec === undefined) return undefined;
    specs.push(spec);
  }
  return specs;
}

function readSpec(r: ByteReader, header: number): LearnSpec | undefined {
  const bits = header & BITS_MASK;
  const what = header & DO_MASK;
  const from = header & FROM_CONSTANT ? readConstant(r, bits) : readPart(r, bits);
  if (from === undefined) return undefined;
  if (what === DO_OUTPUT) return typeof from === 'object' ? { do: 'output', from } : undefined;
  const to = readPart(r, bits);
  if (to === undefined || what === DO_MASK) return undefined;
  return { do: what === DO_MATCH ? 'match' : 'load', to, from };
}

function readPart(r: ByteReader, bits: number): Subfield | undefined {
  const field = fieldWithHeader(r.u32());
  const offset = r.u16();
  return field && { field: field.name, offset, bits };
}

function readConstant(r: ByteReader, bits: number): number | bigint {
  let value = 0n;
  for (let unit = 0; unit < Math.ceil(bits / 16); unit++) value = (value << 16n) | BigInt(r.u16());
  return bits <= 48 ? Number(value) : value;
}
