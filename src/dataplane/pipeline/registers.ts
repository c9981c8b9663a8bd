import { SeineError } from '../../base/errors/seine-error.ts';

/** Range of bits in one 32-bit register, and the names of its values. */
export interface FieldSpec {
  readonly reg: number;
  /** First and last bit, inclusive, 0 = least significant. */
  readonly bits: readonly [first: number, last: number];
  readonly doc: string;
  readonly values?: Readonly<Record<string, number>>;
  /** Fields that may share the same bits, because no packet needs both at once. */
  readonly shares?: readonly string[];
}

/** Value under a mask, for a match or a load. */
export interface Mark {
  readonly field: string;
  readonly reg: number;
  readonly value: number;
  readonly mask: number;
}

/** Position of a field; for actions that move bits. */
export interface BitRange {
  readonly reg: number;
  /** Lowest bit. */
  readonly first: number;
  readonly width: number;
}

type ValueName<S extends FieldSpec> = S['values'] extends Readonly<Record<string, number>> ? keyof S['values'] : never;

type RegisterLayout<T extends Readonly<Record<string, FieldSpec>>> = {
  readonly [F in keyof T]: (value: ValueName<T[F]> | number) => Mark;
};

/**
 * Turns a table of fields into typed marks, e.g. `reg.source('pod')`.
 *
 * @throws SeineError `INVARIANT` when the module loads, if a field leaves its register, two fields overlap without declaring it, or a named
 * value does not fit. The agent must not start with a wrong layout.
 */
export function layoutFields<const T extends Readonly<Record<string, FieldSpec>>>(specs: T): RegisterLayout<T> {
  const fields = Object.entries<FieldSpec>(specs);
  for (const [name, spec] of fields) checkField(name, spec, fields);
  const marks = fields.map(([name, spec]) => [name, markerOf(name, spec)]);
  return Object.fromEntries(marks) as RegisterLayout<T>;
}

export function bitRange(spec: FieldSpec): BitRange {
  return { reg: spec.reg, first: spec.bits[0], width: width(spec) };
}

function checkField(name: string, spec: FieldSpec, fields: readonly (readonly [string, FieldSpec])[]): void {
  const [first, last] = spec.bits;
  if (first < 0 || last > 31 || first > last) fail(`${name}: bits ${first}..${last} are not in 0..31`);
  for (const [label, value] of Object.entries(spec.values ?? {})) {
    if (value >= 2 ** width(spec)) fail(`${name}.${label}: ${value} needs more than ${width(spec)} bits`);
  }
  for (const [other, otherSpec] of fields) {
    if (other < name && overlaps(spec, otherSpec) && !sharing(name, spec, other, otherSpec)) fail(`${name} overlaps ${other}`);
  }
}

/** Returns a function that creates marks. Masks are computed once: there are marks for each of a hundred thousand endpoints. */
function markerOf(field: string, spec: FieldSpec): (named: string | number) => Mark {
  const [first] = spec.bits;
  const [limit, unit] = [2 ** width(spec), 2 ** first];
  const mask = (limit - 1) * unit;
  return (named) => {
    const value = typeof named === 'number' ? named : spec.values?.[named];
    if (value === undefined || value < 0 || value >= limit) throw fail(`${field}: no value ${named}`);
    return { field, reg: spec.reg, value: value * unit, mask };
  };
}

function width(spec: FieldSpec): number {
  return spec.bits[1] - spec.bits[0] + 1;
}

function overlaps(a: FieldSpec, b: FieldSpec): boolean {
  return a.reg === b.reg && a.bits[0] <= b.bits[1] && b.bits[0] <= a.bits[1];
}

function sharing(name: string, spec: FieldSpec, other: string, otherSpec: FieldSpec): boolean {
  return (spec.shares ?? []).includes(other) || (otherSpec.shares ?? []).includes(name);
}

function fail(message: string): never {
  throw new SeineError('INVARIANT', `field layout: ${message}`);
}
