import type { FieldErrors } from '../errors/field-errors.ts';
import { isObject, type JsonRecord } from '../object/json.ts';
import { type ObjectSchema, optional, type SchemaField } from './schema.ts';

/**
 * Reports missing required fields. Numbers and booleans are omitted: Go cannot tell an absent one from zero, so the real server never
 * misses them (their ranges are checked by the kind's own rules). Status is omitted, since it is not validated.
 */
export function checkRequired(object: JsonRecord, schema: ObjectSchema, errors: FieldErrors): void {
  for (const [name, field] of schema.fields) {
    if (name === 'status' || name === 'metadata') continue;
    checkField(object[name], field, name, errors);
  }
}

function checkField(value: unknown, { schema, required }: SchemaField, path: string, errors: FieldErrors): void {
  if (value === undefined || value === '') {
    if (required && mustBeThere.has(schema.type)) errors.required(path);
    return;
  }
  if (schema.type === 'list' && Array.isArray(value)) {
    if (required && value.length === 0 && schema.items.type === 'object') errors.required(path);
    value.forEach((item, index) => {
      checkField(item, optional(schema.items), `${path}[${index}]`, errors);
    });
  } else if (schema.type === 'map' && isObject(value)) {
    for (const [key, item] of Object.entries(value)) checkField(item, optional(schema.values), `${path}[${key}]`, errors);
  } else if (schema.type === 'object' && isObject(value)) {
    for (const [name, field] of schema.fields) checkField(value[name], field, `${path}.${name}`, errors);
  }
}

const mustBeThere: ReadonlySet<string> = new Set(['string', 'list', 'object', 'byte', 'intOrString', 'any']);
