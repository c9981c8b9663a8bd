import { definitionsOf, type OpenApiOperation, type OpenApiSchema, type OperationName, pathsOfResources } from './openapi-schema.ts';
import { ProtoMessage } from './proto-writer.ts';
import type { Resource } from './resource.ts';

const title = 'Kubernetes';
const release = 'v1.36.0';
const gvkMark = 'x-kubernetes-group-version-kind';
const refPrefix = '#/definitions/';

/** Swagger 2.0 as JSON. */
export function openApiV2Json(resources: readonly Resource[]): object {
  const paths = Array.from(pathsOfResources(resources), ([path, operations]) => [path, mapValues(operations, operationJson)] as const);
  return {
    swagger: '2.0',
    info: { title, version: release },
    paths: Object.fromEntries(paths),
    definitions: definitionsOf(resources, refPrefix),
  };
}

function operationJson({ kind, action, parameters }: OpenApiOperation): object {
  return {
    parameters: parameters.map((name) => ({ name, in: 'query', type: 'string', uniqueItems: true })),
    responses: { 200: { description: 'OK' } },
    'x-kubernetes-action': action,
    [gvkMark]: kind,
  };
}

export function mapValues<T, U>(object: Readonly<Partial<Record<string, T>>>, change: (value: T) => U): Record<string, U> {
  return Object.fromEntries(Object.entries(object).flatMap(([key, value]) => (value === undefined ? [] : [[key, change(value)]])));
}

/**
 * The same as `openapi.v2.Document`, which is what kubectl wants for its own validation.
 *
 * Field numbers: gnostic, openapiv2/OpenAPIv2.proto.
 */
export function openApiV2Proto(resources: readonly Resource[]): Uint8Array {
  const info = new ProtoMessage().text(1, title).text(2, release);
  const paths = new ProtoMessage();
  for (const [path, operations] of pathsOfResources(resources))
    paths.message(2, new ProtoMessage().text(1, path).message(2, pathItem(operations)));
  const definitions = new ProtoMessage();
  for (const [name, schema] of Object.entries(definitionsOf(resources, refPrefix)))
    definitions.message(1, named(name, schemaMessage(schema)));
  return new ProtoMessage().text(1, '2.0').message(2, info).message(8, paths).message(9, definitions).bytes();
}

const operationFields: Readonly<Record<OperationName, number>> = { get: 2, put: 3, post: 4, delete: 5, patch: 8 };

function pathItem(operations: Readonly<Partial<Record<OperationName, OpenApiOperation>>>): ProtoMessage {
  const item = new ProtoMessage();
  for (const name of Object.keys(operationFields) as OperationName[]) {
    const operation = operations[name];
    if (operation !== undefined) item.message(operationFields[name], operationMessage(operation));
  }
  return item;
}

function operationMessage({ kind, action, parameters }: OpenApiOperation): ProtoMessage {
  const message = new ProtoMessage();
  for (const name of parameters) {
    const query = new ProtoMessage().text(2, 'query').text(4, name).text(6, 'string');
    message.message(8, new ProtoMessage().message(1, new ProtoMessage().message(2, new ProtoMessage().message(3, query))));
  }
  return message.message(13, extension('x-kubernetes-action', action)).message(13, extension(gvkMark, kind));
}

/** `NamedSchema`, `NamedAny` and their like. */
function named(name: string, value: ProtoMessage): ProtoMessage {
  return new ProtoMessage().text(1, name).message(2, value);
}

/** The value is YAML text, which JSON is. */
function extension(name: string, value: unknown): ProtoMessage {
  return named(name, new ProtoMessage().text(2, JSON.stringify(value)));
}

function schemaMessage(schema: OpenApiSchema): ProtoMessage {
  const message = new ProtoMessage();
  if (schema.$ref !== undefined) message.text(1, schema.$ref);
  if (schema.format !== undefined) message.text(2, schema.format);
  if (schema.description !== undefined) message.text(4, schema.description);
  for (const name of schema.required ?? []) message.text(19, name);
  if (schema.additionalProperties !== undefined)
    message.message(21, new ProtoMessage().message(1, schemaMessage(schema.additionalProperties)));
  if (schema.type !== undefined) message.message(22, new ProtoMessage().text(1, schema.type));
  if (schema.items !== undefined) message.message(23, new ProtoMessage().message(1, schemaMessage(schema.items)));
  if (schema.properties !== undefined) {
    const properties = new ProtoMessage();
    for (const [name, property] of Object.entries(schema.properties)) properties.message(1, named(name, schemaMessage(property)));
    message.message(25, properties);
  }
  for (const [name, value] of Object.entries(schema)) if (name.startsWith('x-')) message.message(31, extension(name, value));
  return message;
}
