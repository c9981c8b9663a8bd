import protobuf from 'protobufjs/light.js';
import { modelSchema, type ObjectSchema, type Schema } from '../schema/schema.ts';
import { protoFields } from './proto-fields.ts';

const { Root } = protobuf;

type Messages = Record<string, protobuf.IType>;

/** Messages that represent one value in JSON. Source: k8s.io/apimachinery, generated.proto of each package. */
const common: Messages = {
  TypeMeta: { fields: { apiVersion: { type: 'string', id: 1 }, kind: { type: 'string', id: 2 } } },
  Unknown: { fields: { typeMeta: { type: 'TypeMeta', id: 1 }, raw: { type: 'bytes', id: 2 } } },
  IntOrString: { fields: { type: { type: 'int64', id: 1 }, intVal: { type: 'int32', id: 2 }, strVal: { type: 'string', id: 3 } } },
  Time: { fields: { seconds: { type: 'int64', id: 1 }, nanos: { type: 'int32', id: 2 } } },
  Quantity: { fields: { string: { type: 'string', id: 1 } } },
};

const envelope = rootOf({});
export const unknownMessage: protobuf.Type = envelope.lookupType('Unknown');

const types = new Map<string, protobuf.Type>();

/** The message of a model, with the fields whose numbers are known and the models that these refer to. */
export function messageOf(model: string): protobuf.Type {
  const known = types.get(model);
  if (known !== undefined) return known;
  const messages: Messages = {};
  addModel(messages, modelSchema(model));
  const type = rootOf(messages).lookupType(model);
  types.set(model, type);
  return type;
}

/** Kubernetes writes proto2, which includes zero values; read as proto3 they are omitted, as Go omits them from JSON. */
function rootOf(messages: Messages): protobuf.Root {
  const root = Root.fromJSON({ options: { edition: 'proto3' }, nested: { ...common, ...messages } });
  root.resolveAll();
  return root;
}

function addModel(messages: Messages, schema: ObjectSchema): void {
  if (Object.hasOwn(messages, schema.model)) return;
  const fields: Record<string, protobuf.IField | protobuf.IMapField> = {};
  messages[schema.model] = { fields };
  for (const pair of (protoFields[schema.model] ?? '').split(' ')) {
    const [name = '', number] = pair.split('=');
    const field = schema.fields.get(name);
    if (field !== undefined) fields[name] = fieldOf(messages, field.schema, Number(number));
  }
}

function fieldOf(messages: Messages, schema: Schema, id: number): protobuf.IField | protobuf.IMapField {
  if (schema.type === 'list') return { rule: 'repeated', type: typeName(messages, schema.items), id };
  if (schema.type === 'map') return { keyType: 'string', type: typeName(messages, schema.values), id };
  return { type: typeName(messages, schema), id };
}

function typeName(messages: Messages, schema: Schema): string {
  switch (schema.type) {
    case 'object':
      addModel(messages, schema);
      return schema.model;
    case 'int32':
    case 'int64':
      return schema.type;
    case 'boolean':
      return 'bool';
    case 'byte':
      return 'bytes';
    case 'intOrString':
      return 'IntOrString';
    case 'quantity':
      return 'Quantity';
    case 'time':
    case 'microTime':
      return 'Time';
    default:
      return 'string';
  }
}
