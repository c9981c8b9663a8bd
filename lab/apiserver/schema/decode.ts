import { isObject, type JsonRecord } from '../object/json.ts';
import type { ObjectSchema, ScalarType, Schema } from './schema.ts';

interface DecodeReport {
  /** Paths of unknown fields, in the order found. They have been removed. */
  readonly unknown: string[];
  /** The first value of a wrong type; decoding stops there. */
  wrongType?: Misfit;
}

export interface Misfit {
  readonly path: string;
  /** JSON types: `string`, `number`, … */
  readonly got: string;
  readonly wanted: string;
  /** Text in the words of Go's decoder. */
  readonly text: string;
}

/**
 * Makes `object` fit its schema, in place: removes unknown fields and nulls (a null means absent), and reports both kinds of misfit.
 * After a report without `wrongType`, casting to the kind's interface is safe except for required fields.
 */
export function decodeInPlace(object: JsonRecord, schema: ObjectSchema): DecodeReport {
  const report: DecodeReport = { unknown: [] };
  decodeObject(object, schema, '', report);
  return report;
}

function decodeObject(object: JsonRecord, schema: ObjectSchema, path: string, report: DecodeReport): void {
  for (const name of Object.keys(object)) {
    const here = path === '' ? name : `${path}.${name}`;
    const value = object[name];
    const field = schema.fields.get(name);
    if (field === undefined) {
      if (schema.open) continue;
      report.unknown.push(here);
      delete object[name];
    } else if (value === null && field.schema.rules?.nullable !== true) delete object[name];
    else if (value !== null) decodeValue(value, field.schema, here, report);
    if (report.wrongType !== undefined) return;
  }
}

function decodeValue(value: unknown, schema: Schema, path: string, report: DecodeReport): void {
  if (schema.type === 'object') {
    if (isObject(value)) decodeObject(value, schema, path, report);
    else wrongType(value, 'object', schema.model || 'object', path, report);
  } else if (schema.type === 'map') {
    if (isObject(value)) decodeMap(value, schema.values, path, report);
    else wrongType(value, 'map', 'map', path, report);
  } else if (schema.type === 'list') {
    if (Array.isArray(value)) for (const [index, item] of value.entries()) decodeValue(item, schema.items, `${path}[${index}]`, report);
    else wrongType(value, 'list', 'list', path, report);
  } else if (!scalarFits(value, schema.type)) wrongType(value, schema.type, goTypes[schema.type], path, report);
}

function decodeMap(map: JsonRecord, values: Schema, path: string, report: DecodeReport): void {
  for (const key of Object.keys(map)) {
    if (map[key] === null && values.type === 'string') map[key] = '';
    else if (map[key] !== null) decodeValue(map[key], values, `${path}.${key}`, report);
  }
}

const goTypes: Readonly<Record<ScalarType, string>> = {
  string: 'string',
  int32: 'int32',
  int64: 'int64',
  number: 'float64',
  boolean: 'bool',
  time: 'Time',
  microTime: 'MicroTime',
  byte: '[]uint8',
  intOrString: 'IntOrString',
  quantity: 'Quantity',
  any: 'interface {}',
};

function scalarFits(value: unknown, type: ScalarType): boolean {
  switch (type) {
    case 'any':
      return true;
    case 'int32':
      return Number.isInteger(value) && Math.abs(Number(value)) < 2 ** 31;
    case 'int64':
      return Number.isInteger(value);
    case 'number':
      return typeof value === 'number';
    case 'boolean':
      return typeof value === 'boolean';
    case 'time':
    case 'microTime':
      return typeof value === 'string' && !Number.isNaN(Date.parse(value));
    case 'byte':
      return typeof value === 'string' && /^[A-Za-z0-9+/\r\n]*={0,2}$/.test(value);
    case 'intOrString':
      return typeof value === 'string' || scalarFits(value, 'int32');
    case 'quantity':
      return (
        typeof value === 'number' || (typeof value === 'string' && /^[+-]?[0-9.]+([eE][-+]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?$/.test(value))
      );
    case 'string':
      return typeof value === 'string';
  }
}

function wrongType(value: unknown, schemaType: string, wanted: string, path: string, report: DecodeReport): void {
  const got = Array.isArray(value) ? 'array' : isObject(value) ? 'object' : typeof value === 'boolean' ? 'bool' : typeof value;
  const shown = typeof value === 'number' ? `${got} ${value}` : got;
  const text = `json: cannot unmarshal ${shown} into Go struct field ${goField(path)} of type ${wanted}`;
  report.wrongType ??= { path, got: got === 'bool' ? 'boolean' : got, wanted: jsonTypes[schemaType] ?? schemaType, text };
}

const jsonTypes: Readonly<Record<string, string>> = {
  map: 'object',
  list: 'array',
  int32: 'integer',
  int64: 'integer',
  byte: 'string',
  time: 'string',
  microTime: 'string',
  quantity: 'string',
  intOrString: 'integer,string',
};

/** `spec.ports[0].port` → `.spec.ports.port`: Go's decoder names no index. */
function goField(path: string): string {
  return path.replaceAll(/\[\d+\]/g, '');
}
