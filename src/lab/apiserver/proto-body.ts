import { ApiError, badRequest } from './api-error.ts';
import { type JsonObject, setField } from './json.ts';
import { protoFields } from './proto-fields.ts';
import { modelSchema, type ObjectSchema, type Schema } from './schema.ts';

export const protobufType = 'application/vnd.kubernetes.protobuf';

const magic = Uint8Array.of(0x6b, 0x38, 0x73, 0x00);

/** Wire types of https://protobuf.dev/programming-guides/encoding. */
const wire = { varint: 0, fixed64: 1, delimited: 2, fixed32: 5 } as const;

interface Field {
  readonly number: number;
  /** A varint's value, or the bytes of anything longer. */
  readonly value: number | Uint8Array;
}

/**
 * Reads an object in the `application/vnd.kubernetes.protobuf` form: four magic bytes, then a `runtime.Unknown` with the type's name
 * and the object. Gives what the same object would be in JSON; zero values are left out, as Go leaves them out of JSON.
 *
 * @throws ApiError 400 if the bytes are damaged, 415 for a kind or field whose numbers this server does not know
 */
export function decodeProtoBody(bytes: Uint8Array, modelOf: (apiVersion: string, kind: string) => string | undefined): JsonObject {
  if (magic.some((byte, index) => bytes[index] !== byte))
    throw badRequest('provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]');
  const unknown = Array.from(fieldsOf(bytes.subarray(magic.length)));
  const typeMeta = Array.from(fieldsOf(bytesOf(unknown.find(({ number }) => number === 1)?.value)));
  const [apiVersion, kind] = [1, 2].map((wanted) => textOf(typeMeta.find(({ number }) => number === wanted)?.value));
  const model = modelOf(apiVersion ?? '', kind ?? '');
  if (model === undefined) throw unsupported(`${kind ?? ''} in ${apiVersion ?? ''} is not taken as protobuf here; send JSON`);
  const object = decodeMessage(bytesOf(unknown.find(({ number }) => number === 2)?.value), modelSchema(model));
  return { apiVersion, kind, ...object };
}

function unsupported(message: string): ApiError {
  return new ApiError(415, 'UnsupportedMediaType', message);
}

function decodeMessage(bytes: Uint8Array, schema: ObjectSchema): JsonObject {
  const names = new Map((protoFields[schema.model] ?? '').split(' ').map((pair) => [Number(pair.split('=')[1]), pair.split('=')[0] ?? '']));
  const object: JsonObject = {};
  for (const { number, value } of fieldsOf(bytes)) {
    const name = names.get(number);
    const field = schema.fields.get(name ?? '');
    if (name === undefined || field === undefined)
      throw unsupported(`field ${number} of ${schema.model} is not taken as protobuf here; send JSON`);
    addField(object, name, field.schema, value);
  }
  return object;
}

function addField(object: JsonObject, name: string, schema: Schema, value: Field['value']): void {
  if (schema.type === 'list') {
    const there = object[name];
    const item = decodeValue(value, schema.items);
    object[name] = [...(Array.isArray(there) ? there : []), item ?? (schema.items.type === 'string' ? '' : 0)];
  } else if (schema.type === 'map') {
    const map = (object[name] ??= {}) as JsonObject;
    const entry = Array.from(fieldsOf(bytesOf(value)));
    const content = entry.find(({ number }) => number === 2)?.value;
    setField(
      map,
      textOf(entry.find(({ number }) => number === 1)?.value),
      (content === undefined ? undefined : decodeValue(content, schema.values)) ?? '',
    );
  } else {
    const decoded = decodeValue(value, schema);
    if (decoded !== undefined) object[name] = decoded;
  }
}

/** @returns undefined for a zero value */
function decodeValue(value: Field['value'], schema: Schema): unknown {
  switch (schema.type) {
    case 'object':
      return decodeMessage(bytesOf(value), schema);
    case 'int32':
    case 'int64':
      return value === 0 ? undefined : value;
    case 'boolean':
      return value === 1 ? true : undefined;
    case 'byte':
      return Buffer.from(bytesOf(value)).toString('base64');
    case 'intOrString':
      return decodeIntOrString(bytesOf(value));
    case 'quantity':
      return textOf(Array.from(fieldsOf(bytesOf(value))).find(({ number }) => number === 1)?.value) || undefined;
    case 'time':
    case 'microTime':
      return decodeTime(bytesOf(value));
    default:
      return textOf(value) || undefined;
  }
}

/** `intstr.IntOrString`: type 1 (1 = string), intVal 2, strVal 3. */
function decodeIntOrString(bytes: Uint8Array): number | string | undefined {
  const fields = new Map(Array.from(fieldsOf(bytes), ({ number, value }) => [number, value]));
  const decoded = fields.get(1) === 1 ? textOf(fields.get(3)) : fields.get(2);
  return typeof decoded === 'string' || (typeof decoded === 'number' && decoded !== 0) ? decoded : undefined;
}

/** `metav1.Time`: seconds 1, nanos 2. */
function decodeTime(bytes: Uint8Array): string | undefined {
  const seconds = Array.from(fieldsOf(bytes)).find(({ number }) => number === 1)?.value;
  return typeof seconds === 'number' && seconds > 0 ? new Date(seconds * 1000).toISOString() : undefined;
}

function* fieldsOf(bytes: Uint8Array): Generator<Field> {
  let at = 0;
  const readVarint = (): number => {
    let value = 0;
    for (let shift = 1; shift < 2 ** 63; shift *= 128) {
      const byte = bytes[at++];
      if (byte === undefined) throw badRequest('unexpected end of a protobuf message');
      value += (byte % 128) * shift;
      if (byte < 128) return value >= 2 ** 63 ? value - 2 ** 64 : value;
    }
    throw badRequest('a protobuf varint is too long');
  };
  while (at < bytes.length) {
    const tag = readVarint();
    const number = Math.floor(tag / 8);
    const type = tag % 8;
    if (type === wire.varint) {
      yield { number, value: readVarint() };
      continue;
    }
    const length = type === wire.delimited ? readVarint() : type === wire.fixed64 ? 8 : type === wire.fixed32 ? 4 : -1;
    if (length < 0 || at + length > bytes.length) throw badRequest('a protobuf field does not fit its message');
    yield { number, value: bytes.subarray(at, at + length) };
    at += length;
  }
}

function bytesOf(value: Field['value'] | undefined): Uint8Array {
  if (typeof value === 'number') throw badRequest('a protobuf field is a number where a message is wanted');
  return value ?? new Uint8Array();
}

function textOf(value: Field['value'] | undefined): string {
  return Buffer.from(bytesOf(value)).toString('utf8');
}
