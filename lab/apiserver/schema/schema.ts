import { SeineError } from '../../../src/base/errors/seine-error.ts';
import { atomicMaps, atomicModels, type ListSemantics, listSemantics } from './list-semantics.ts';
import { schemaLines } from './schema-data.ts';

export type ScalarType =
  | 'string'
  | 'int32'
  | 'int64'
  | 'number'
  | 'boolean'
  | 'time'
  | 'microTime'
  | 'byte'
  | 'intOrString'
  | 'quantity'
  | 'any';

/** The shape of a value. Objects of built-in kinds are shared and may contain themselves. */
export type Schema = ScalarSchema | ListSchema | MapSchema | ObjectSchema;

interface ScalarSchema {
  readonly type: ScalarType;
  readonly rules?: Rules;
}

export interface ListSchema {
  readonly type: 'list';
  readonly items: Schema;
  readonly semantics: ListSemantics;
  readonly rules?: Rules;
}

interface MapSchema {
  readonly type: 'map';
  readonly values: Schema;
  /** True if server-side apply owns and replaces it as a whole. */
  readonly atomic: boolean;
  readonly rules?: Rules;
}

export interface ObjectSchema {
  readonly type: 'object';
  /** Name of the model; empty inside custom resources. */
  readonly model: string;
  readonly fields: ReadonlyMap<string, SchemaField>;
  /** True if undeclared fields are kept and not reported. */
  readonly open: boolean;
  readonly atomic: boolean;
  readonly rules?: Rules;
}

export interface SchemaField {
  readonly schema: Schema;
  readonly required: boolean;
}

/** Schema of an item of a list or map: its absence is not an error. */
export function optional(schema: Schema): SchemaField {
  return { schema, required: false };
}

/** Constraints of a custom resource's schema besides types (`JSONSchemaProps`). */
export interface Rules {
  readonly nullable?: boolean;
  readonly default?: unknown;
  readonly enum?: readonly unknown[];
  readonly pattern?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: boolean;
  readonly exclusiveMaximum?: boolean;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly minProperties?: number;
  readonly maxProperties?: number;
  readonly format?: string;
}

const letters: Readonly<Record<string, ScalarType>> = {
  '': 'string',
  i: 'int32',
  l: 'int64',
  n: 'number',
  b: 'boolean',
  t: 'time',
  u: 'microTime',
  y: 'byte',
  x: 'intOrString',
  q: 'quantity',
  '*': 'any',
};

const scalars = new Map(Object.entries(letters).map(([letter, type]) => [letter, { type } as const]));

const models: ReadonlyMap<string, ObjectSchema> = parseModels(schemaLines);

/** @throws SeineError `INVARIANT` if schema-data.ts has no such model */
export function modelSchema(model: string): ObjectSchema {
  const schema = models.get(model);
  if (schema === undefined) throw new SeineError('INVARIANT', `no schema for model ${model}`);
  return schema;
}

export const objectMetaSchema = modelSchema('V1ObjectMeta');

function parseModels(text: string): ReadonlyMap<string, ObjectSchema> {
  const lines = text.split('\n').filter((line) => line !== '');
  const fieldsOf = new Map<string, Map<string, SchemaField>>();
  const schemas = new Map<string, ObjectSchema>();
  for (const line of lines) {
    const [model = '', ...words] = line.split(' ');
    const fields = new Map<string, SchemaField>();
    fieldsOf.set(model, fields);
    schemas.set(model, { type: 'object', model, fields, open: words.length === 0, atomic: atomicModels.has(model) });
  }
  for (const line of lines) {
    const [model = '', ...words] = line.split(' ');
    for (const word of words) {
      const [, name = '', bang, type = ''] = /^([^:!]+)(!?)(?::(.*))?$/.exec(word) ?? [];
      const schema = parseType(type, listSemantics[model]?.[name] ?? {}, schemas);
      const atomic = atomicMaps[model]?.includes(name) === true;
      fieldsOf.get(model)?.set(name, { schema: schema.type === 'map' && atomic ? { ...schema, atomic } : schema, required: bang === '!' });
    }
  }
  return schemas;
}

function parseType(text: string, semantics: ListSemantics, schemas: ReadonlyMap<string, ObjectSchema>): Schema {
  if (text.startsWith('[]')) return { type: 'list', items: parseType(text.slice(2), {}, schemas), semantics };
  if (text.startsWith('{}')) return { type: 'map', values: parseType(text.slice(2), {}, schemas), atomic: false };
  const schema = text.startsWith('@') ? schemas.get(text.slice(1)) : scalars.get(text);
  if (schema === undefined) throw new SeineError('INVARIANT', `schema-data.ts has an unknown type ${text}`);
  return schema;
}
