import protobuf from 'protobufjs/light.js';
import { ApiError, badRequest } from '../errors/api-error.ts';
import { isObject, type JsonRecord, setField, textAt } from '../object/json.ts';
import { modelSchema, type ObjectSchema, type Schema } from '../schema/schema.ts';
import { messageOf, unknownMessage } from './proto-types.ts';

export const protobufType = 'application/vnd.kubernetes.protobuf';

const magic = Uint8Array.of(0x6b, 0x38, 0x73, 0x00);

/**
 * Reads an object in the `application/vnd.kubernetes.protobuf` form: four magic bytes, then a `runtime.Unknown` with the type's name and
 * the object. Returns the same as for the object in JSON; zero values are omitted, as Go omits them from JSON.
 *
 * @throws ApiError 400 if the bytes are malformed, 415 for a kind or field whose numbers this server does not know
 */
export function decodeProtoBody(bytes: Uint8Array, modelOf: (apiVersion: string, kind: string) => string | undefined): JsonRecord {
  if (magic.some((byte, index) => bytes[index] !== byte))
    throw badRequest('provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]');
  const unknown = fieldsOf(decode(unknownMessage, bytes.subarray(magic.length)));
  const [apiVersion, kind] = [textAt(unknown, 'typeMeta', 'apiVersion'), textAt(unknown, 'typeMeta', 'kind')];
  const model = modelOf(apiVersion, kind);
  if (model === undefined) throw unsupported(`${kind} in ${apiVersion} is not taken as protobuf here; send JSON`);
  const { raw } = unknown;
  const message = decode(messageOf(model), raw instanceof Uint8Array ? raw : new Uint8Array());
  return { apiVersion, kind, ...objectOf(message, modelSchema(model)) };
}

function unsupported(message: string): ApiError {
  return new ApiError(415, 'UnsupportedMediaType', message);
}

function decode(type: protobuf.Type, bytes: Uint8Array): unknown {
  const reader = protobuf.Reader.create(bytes);
  // Kept so that it is rejected: an object must not lose fields on its way in.
  reader.discardUnknown = false;
  try {
    return type.decode(reader);
  } catch (cause) {
    throw badRequest(`the protobuf message is damaged: ${cause instanceof Error ? cause.message : String(cause)}`);
  }
}

function fieldsOf(message: unknown): JsonRecord {
  return isObject(message) ? message : {};
}

function objectOf(message: unknown, schema: ObjectSchema): JsonRecord {
  refuseUnknown(message, schema);
  const object: JsonRecord = {};
  for (const [name, value] of Object.entries(fieldsOf(message))) {
    const field = schema.fields.get(name);
    const json = field === undefined ? undefined : jsonOf(value, field.schema);
    if (json !== undefined) object[name] = json;
  }
  return object;
}

function refuseUnknown(message: unknown, { model }: ObjectSchema): void {
  const [first] = (message as protobuf.Message).$unknowns ?? [];
  if (first === undefined) return;
  const number = protobuf.Reader.create(first).uint32() >>> 3;
  throw unsupported(`field ${number} of ${model} is not taken as protobuf here; send JSON`);
}

/** @returns undefined for a zero value: protobufjs gives lists and maps that were not sent as empty ones */
function jsonOf(value: unknown, schema: Schema): unknown {
  switch (schema.type) {
    case 'list': {
      const items = (value as readonly unknown[]).map((item) => jsonOf(item, schema.items) ?? zeroOf(schema.items));
      return items.length === 0 ? undefined : items;
    }
    case 'map': {
      const map: JsonRecord = {};
      for (const [key, content] of Object.entries(fieldsOf(value))) setField(map, key, jsonOf(content, schema.values) ?? '');
      return Object.keys(map).length === 0 ? undefined : map;
    }
    case 'object':
      return objectOf(value, schema);
    case 'byte':
      return Buffer.from(value as Uint8Array).toString('base64');
    case 'intOrString':
      return intOrString(fieldsOf(value));
    case 'quantity':
      return textAt(value, 'string') || undefined;
    case 'time':
    case 'microTime':
      return timeOf(fieldsOf(value));
    case 'int64':
      return Number(value) || undefined;
    default:
      return value || undefined;
  }
}

function zeroOf(schema: Schema): string | number {
  return schema.type === 'string' ? '' : 0;
}

/** `intstr.IntOrString`: type 1 is a string. */
function intOrString({ type, intVal, strVal }: JsonRecord): unknown {
  return Number(type) === 1 ? (strVal ?? '') : intVal || undefined;
}

/** `metav1.Time`. */
function timeOf({ seconds }: JsonRecord): string | undefined {
  return Number(seconds) > 0 ? new Date(Number(seconds) * 1000).toISOString() : undefined;
}
