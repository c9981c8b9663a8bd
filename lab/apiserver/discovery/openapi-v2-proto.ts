import protobuf from 'protobufjs/light.js';
import type { ResourceFacts } from '../resource/resource.ts';
import { definitionsOf, type OpenApiOperation, type OpenApiSchema, pathsOfResources } from './openapi-schema.ts';
import { gvkMark, mapValues, refPrefix, release, title } from './openapi-v2.ts';

/** `name=number:type`; `*` for repeated. Source: gnostic, openapiv2/OpenAPIv2.proto, the parts that clients read. */
const messages: Readonly<Record<string, string>> = {
  Document: 'swagger=1:string info=2:Info paths=8:Paths definitions=9:Definitions',
  Info: 'title=1:string version=2:string',
  Paths: 'path=2:*NamedPathItem',
  NamedPathItem: 'name=1:string value=2:PathItem',
  PathItem: 'get=2:Operation put=3:Operation post=4:Operation delete=5:Operation patch=8:Operation',
  Operation: 'parameters=8:*ParametersItem vendorExtension=13:*NamedAny',
  ParametersItem: 'parameter=1:Parameter',
  Parameter: 'nonBodyParameter=2:NonBodyParameter',
  NonBodyParameter: 'queryParameterSubSchema=3:QueryParameterSubSchema',
  QueryParameterSubSchema: 'in=2:string name=4:string type=6:string',
  Definitions: 'additionalProperties=1:*NamedSchema',
  NamedSchema: 'name=1:string value=2:Schema',
  Schema:
    'ref=1:string format=2:string description=4:string required=19:*string additionalProperties=21:AdditionalPropertiesItem type=22:TypeItem items=23:ItemsItem properties=25:Properties vendorExtension=31:*NamedAny',
  AdditionalPropertiesItem: 'schema=1:Schema',
  TypeItem: 'value=1:*string',
  ItemsItem: 'schema=1:*Schema',
  Properties: 'additionalProperties=1:*NamedSchema',
  NamedAny: 'name=1:string value=2:Any',
  Any: 'yaml=2:string',
};

const documentType = protobuf.Root.fromJSON({ nested: mapValues(messages, (fields) => ({ fields: fieldsOf(fields) })) }).lookupType(
  'Document',
);

function fieldsOf(text: string): Record<string, protobuf.IField> {
  const fields = text.split(' ').map((field): [string, protobuf.IField] => {
    const [, name = '', number, repeated, type = ''] = /^(\w+)=(\d+):(\*?)(\w+)$/.exec(field) ?? [];
    return [name, { id: Number(number), type, ...(repeated === '*' ? { rule: 'repeated' } : {}) }];
  });
  return Object.fromEntries(fields);
}

/** The same as `openapi.v2.Document`, which kubectl requires for its own validation. */
export function openApiV2Proto(resources: readonly ResourceFacts[]): Uint8Array {
  const paths = Array.from(pathsOfResources(resources), ([name, operations]) => ({ name, value: mapValues(operations, operationMessage) }));
  const definitions = namedSchemas(definitionsOf(resources, refPrefix));
  const document = {
    swagger: '2.0',
    info: { title, version: release },
    paths: { path: paths },
    definitions: { additionalProperties: definitions },
  };
  return documentType.encode(document).finish();
}

function operationMessage({ kind, action, parameters }: OpenApiOperation): object {
  const query = (name: string) => ({ queryParameterSubSchema: { in: 'query', name, type: 'string' } });
  return {
    parameters: parameters.map((name) => ({ parameter: { nonBodyParameter: query(name) } })),
    vendorExtension: [extension('x-kubernetes-action', action), extension(gvkMark, kind)],
  };
}

/** The value is YAML text; JSON is also YAML. */
function extension(name: string, value: unknown): object {
  return { name, value: { yaml: JSON.stringify(value) } };
}

function namedSchemas(schemas: Readonly<Record<string, OpenApiSchema>>): object[] {
  return Object.entries(schemas).map(([name, schema]) => ({ name, value: schemaMessage(schema) }));
}

function schemaMessage(schema: OpenApiSchema): object {
  const { $ref, format, description, required, additionalProperties, type, items, properties } = schema;
  return {
    ref: $ref,
    format,
    description,
    required,
    ...(additionalProperties && { additionalProperties: { schema: schemaMessage(additionalProperties) } }),
    ...(type !== undefined && { type: { value: [type] } }),
    ...(items && { items: { schema: [schemaMessage(items)] } }),
    ...(properties && { properties: { additionalProperties: namedSchemas(properties) } }),
    vendorExtension: Object.entries(schema).flatMap(([name, value]) => (name.startsWith('x-') ? [extension(name, value)] : [])),
  };
}
