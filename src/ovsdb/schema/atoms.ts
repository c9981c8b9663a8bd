import { SeineError } from '../../base/errors/seine-error.ts';
import { type Json, jsonInteger } from '../json.ts';

/**
 * Type of the values of columns, as a program reads (`R`) and writes (`W`) them; one of six.
 *
 * Source: RFC 7047 section 3.2 `<atomic-type>` and section 5.1 `<atom>`.
 */
export interface AtomType<R, W = R> {
  readonly name: string;
  /** Default of a column of this type (RFC 7047 section 5.2.1). */
  readonly fallback: R;
  /** @throws SeineError `PROTOCOL` if the value is of another type. */
  decode(json: unknown): R;
  /** @throws SeineError `INVALID_INPUT` if the type cannot hold the value. */
  encode(value: W): Json;
  /** Reason why the constraints of `limits.ts` forbid the value; `undefined` if they do not. */
  objection?(value: W): string | undefined;
}

declare const uuidBrand: unique symbol;
/** UUID of a row, assigned by the server: 36 characters, lower case. */
export type Uuid = string & { readonly [uuidBrand]: true };

/** Row that the same transaction inserts. Stands for its UUID until the server has assigned one. */
export class NewRow<T extends string = string> {
  readonly table: T;
  /** `<id>` of RFC 7047: unique in the transaction. */
  readonly uuidName: string;

  constructor(table: T, uuidName: string) {
    this.table = table;
    this.uuidName = uuidName;
  }
}

const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

export function isUuid(text: string): text is Uuid {
  return uuidPattern.test(text);
}

/** @throws SeineError `INVALID_INPUT` if the text does not have the form that the server writes. */
export function parseUuid(text: string): Uuid {
  if (!isUuid(text)) throw new SeineError('INVALID_INPUT', `${JSON.stringify(text)} is not a UUID`);
  return text;
}

const zeroUuid = parseUuid('00000000-0000-0000-0000-000000000000');
const int64 = { min: -(2n ** 63n), max: 2n ** 63n - 1n };

/** Any 64-bit integer: counters, and everything that the schema does not bound. */
export const integer: AtomType<bigint> = {
  name: 'integer',
  fallback: 0n,
  decode(json) {
    const value = typeof json === 'number' && Number.isInteger(json) ? BigInt(json) : json;
    if (typeof value !== 'bigint') throw mismatch('integer', json);
    if (value < int64.min || value > int64.max) throw mismatch('integer of 64 bits', json);
    return value;
  },
  encode(value) {
    if (value < int64.min || value > int64.max) throw new SeineError('INVALID_INPUT', `${value} does not fit in 64 bits`);
    return jsonInteger(value);
  },
};

/** Integer that the schema, or the manual, bounds far below 2^53. */
export const smallInteger: AtomType<number> = {
  name: 'integer',
  fallback: 0,
  decode(json) {
    if (typeof json === 'number' && Number.isSafeInteger(json)) return json;
    throw mismatch('small integer', json);
  },
  encode(value) {
    if (!Number.isSafeInteger(value)) throw new SeineError('INVALID_INPUT', `${value} is not an exact integer`);
    return value;
  },
};

export const real: AtomType<number> = {
  name: 'real',
  fallback: 0,
  decode(json) {
    const value = typeof json === 'bigint' ? Number(json) : json;
    if (typeof value === 'number' && Number.isFinite(value)) return value;
    throw mismatch('real', json);
  },
  encode(value) {
    if (!Number.isFinite(value)) throw new SeineError('INVALID_INPUT', `${value} has no form in JSON`);
    return value;
  },
};

export const boolean: AtomType<boolean> = {
  name: 'boolean',
  fallback: false,
  decode(json) {
    if (typeof json === 'boolean') return json;
    throw mismatch('boolean', json);
  },
  encode: (value) => value,
};

export const string: AtomType<string> = {
  name: 'string',
  fallback: '',
  decode(json) {
    if (typeof json !== 'string') throw mismatch('string', json);
    const fault = faultOf(json);
    if (fault !== undefined) throw new SeineError('PROTOCOL', `OVSDB: string expected, one with ${fault} found`);
    return json;
  },
  encode(value) {
    // The server closes the connection because of a zero byte, so one bad value would affect every caller.
    const fault = faultOf(value);
    if (fault !== undefined) throw new SeineError('INVALID_INPUT', `a string for OVSDB contains ${fault}`);
    return value;
  },
};

/** String for which a newer server may also have values that this build does not know. */
export type Known<K extends string> = K | (string & Record<never, never>);

/** UUID. Use `ref` for one that refers to a row of a known table. */
export const uuid: AtomType<Uuid, Uuid | NewRow> = {
  name: 'uuid',
  fallback: zeroUuid,
  decode(json) {
    if (Array.isArray(json) && json.length === 2 && json[0] === 'uuid' && typeof json[1] === 'string' && isUuid(json[1])) return json[1];
    throw mismatch('uuid', json);
  },
  encode: (value) => (value instanceof NewRow ? ['named-uuid', value.uuidName] : ['uuid', value]),
};

/** UUID of a row of that table. */
export function ref<const T extends string>(_table: T): AtomType<Uuid, Uuid | NewRow<T>> {
  return uuid;
}

/** Reports what no string of a database can contain (RFC 7047 section 3.1 `<string>`). */
function faultOf(text: string): string | undefined {
  if (text.includes('\0')) return 'a zero byte';
  return text.isWellFormed() ? undefined : 'half a character';
}

function mismatch(wanted: string, json: unknown): SeineError {
  const found = Array.isArray(json) ? 'array' : typeof json;
  return new SeineError('PROTOCOL', `OVSDB: ${wanted} expected, ${found} found`);
}
