import type { FieldErrors } from './field-errors.ts';
import { isObject, type JsonObject } from './json.ts';
import type { ObjectSchema, Schema } from './schema.ts';

/**
 * Reports fields that must be there and are not. Numbers and booleans are left out: Go cannot tell an absent one from zero, so the real
 * server never misses them (their ranges are checked by the kind's own rules). Status is left out, since nobody validates it.
 */
export function checkRequired(object: JsonObject, schema: ObjectSchema, errors: FieldErrors): void {
  for (const [name, { schema: fieldSchema, required }] of schema.fields) {
    if (name === 'status' || name === 'metadata') continue;
    checkField(object[name], fieldSchema, name, required, errors);
  }
}

function checkField(value: unknown, schema: Schema, path: string, required: boolean, errors: FieldErrors): void {
  if (value === undefined || value === '') {
    if (required && mustBeThere.has(schema.type)) errors.required(path);
    return;
  }
  if (schema.type === 'list' && Array.isArray(value)) {
    if (required && value.length === 0 && schema.items.type === 'object') errors.required(path);
    value.forEach((item, index) => {
      checkField(item, schema.items, `${path}[${index}]`, false, errors);
    });
  } else if (schema.type === 'map' && isObject(value)) {
    for (const [key, item] of Object.entries(value)) checkField(item, schema.values, `${path}[${key}]`, false, errors);
  } else if (schema.type === 'object' && isObject(value)) {
    for (const [name, field] of schema.fields) checkField(value[name], field.schema, `${path}.${name}`, field.required, errors);
  }
}

const mustBeThere: ReadonlySet<string> = new Set(['string', 'list', 'object', 'byte', 'intOrString', 'any']);
