import type { FieldErrors } from '../errors/field-errors.ts';
import { cloneJson, equalJson, isObject, type JsonRecord } from '../object/json.ts';
import { type ObjectSchema, optional, type Rules, type Schema, type SchemaField } from './schema.ts';

/** Fills in the defaults of a custom resource's schema, in place, also inside present objects. */
export function applyDefaults(object: JsonRecord, schema: ObjectSchema): void {
  for (const [name, { schema: child }] of schema.fields) {
    if (name === 'metadata') continue;
    if (object[name] === undefined && child.rules?.default !== undefined) object[name] = cloneJson(child.rules.default);
    defaultsBelow(object[name], child);
  }
}

function defaultsBelow(value: unknown, schema: Schema): void {
  if (schema.type === 'object' && isObject(value)) applyDefaults(value, schema);
  else if (schema.type === 'list' && Array.isArray(value)) for (const item of value) defaultsBelow(item, schema.items);
  else if (schema.type === 'map' && isObject(value)) for (const item of Object.values(value)) defaultsBelow(item, schema.values);
}

/** Reports violations of a custom resource's schema. Types have been checked before. */
export function checkCustomRules(object: JsonRecord, schema: ObjectSchema, errors: FieldErrors): void {
  for (const [name, field] of schema.fields) {
    if (name !== 'metadata') checkField(object[name], field, name, errors);
  }
}

function checkField(value: unknown, { schema, required }: SchemaField, path: string, errors: FieldErrors): void {
  if (value === undefined) {
    if (required) errors.required(path);
    return;
  }
  if (value === null) return;
  if (schema.rules !== undefined) checkRules(value, schema.rules, path, errors);
  if (schema.type === 'object' && isObject(value)) {
    for (const [name, field] of schema.fields) checkField(value[name], field, `${path}.${name}`, errors);
  } else if (schema.type === 'map' && isObject(value)) {
    for (const [key, item] of Object.entries(value)) checkField(item, optional(schema.values), `${path}.${key}`, errors);
  } else if (schema.type === 'list' && Array.isArray(value)) {
    for (const [index, item] of value.entries()) checkField(item, optional(schema.items), `${path}[${index}]`, errors);
    checkUnique(value, schema.semantics.keys, path, errors);
  }
}

function checkRules(value: unknown, rules: Rules, path: string, errors: FieldErrors): void {
  const say = (text: string) => errors.invalid(path, value, `${path} in body ${text}`);
  if (rules.enum !== undefined && !rules.enum.some((one) => equalJson(one, value)))
    errors.notSupported(path, value, rules.enum.map(String));
  if (typeof value === 'string') checkText(value, rules, say, path, errors);
  if (typeof value === 'number') checkNumber(value, rules, say);
  const { minItems = 0, maxItems = Infinity, minProperties = 0, maxProperties = Infinity } = rules;
  if (Array.isArray(value) && value.length < minItems) say(`should have at least ${minItems} items`);
  if (Array.isArray(value) && value.length > maxItems) errors.tooMany(path, value.length, maxItems);
  if (isObject(value) && Object.keys(value).length < minProperties) say(`should have at least ${minProperties} properties`);
  if (isObject(value) && Object.keys(value).length > maxProperties) errors.tooMany(path, Object.keys(value).length, maxProperties);
}

const textFormats: Readonly<Record<string, RegExp>> = {
  ipv4: /^\d{1,3}(\.\d{1,3}){3}$/,
  ipv6: /^[0-9a-f:.]*:[0-9a-f:.]*$/i,
  'date-time': /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}/i,
  cidr: /^[0-9a-f:.]+\/\d{1,3}$/i,
};

function checkText(value: string, rules: Rules, say: (text: string) => void, path: string, errors: FieldErrors): void {
  const { pattern, minLength = 0, maxLength = Infinity, format = '' } = rules;
  if (pattern !== undefined && !new RegExp(pattern).test(value)) say(`should match '${pattern}'`);
  if (value.length < minLength) say(`should be at least ${minLength} chars long`);
  if (value.length > maxLength) errors.tooLong(path, maxLength);
  if (textFormats[format]?.test(value) === false) say(`must be of type ${format}: ${JSON.stringify(value)}`);
}

function checkNumber(
  value: number,
  { minimum = -Infinity, maximum = Infinity, exclusiveMinimum, exclusiveMaximum }: Rules,
  say: (text: string) => void,
): void {
  if (value < minimum || (exclusiveMinimum === true && value === minimum))
    say(`should be greater than ${exclusiveMinimum === true ? '' : 'or equal to '}${minimum}`);
  if (value > maximum || (exclusiveMaximum === true && value === maximum))
    say(`should be less than ${exclusiveMaximum === true ? '' : 'or equal to '}${maximum}`);
}

/** Checks that sets and maps have each member once. */
function checkUnique(list: readonly unknown[], keys: readonly string[] | undefined, path: string, errors: FieldErrors): void {
  if (keys === undefined) return;
  const seen = new Set<string>();
  for (const [index, item] of list.entries()) {
    const identity = JSON.stringify(keys.length === 0 ? item : keys.map((key) => (isObject(item) ? item[key] : undefined)));
    if (seen.has(identity)) errors.duplicate(`${path}[${index}]`, item);
    seen.add(identity);
  }
}
