import { apiVersionOf, type ResourceFacts } from '../resource/resource.ts';
import type { ListSchema, ObjectSchema, ScalarType, Schema } from '../schema/schema.ts';

/** A schema in OpenAPI form, with the fields that clients read. */
export interface OpenApiSchema {
  $ref?: string;
  type?: string;
  format?: string;
  description?: string;
  enum?: readonly unknown[];
  required?: readonly string[];
  properties?: Record<string, OpenApiSchema>;
  items?: OpenApiSchema;
  additionalProperties?: OpenApiSchema;
  allOf?: OpenApiSchema[];
  /** `x-kubernetes-…` */
  [extension: `x-${string}`]: unknown;
}

interface GroupVersionKind {
  readonly group: string;
  readonly kind: string;
  readonly version: string;
}

const scalars: Readonly<Record<ScalarType, OpenApiSchema>> = {
  string: { type: 'string' },
  int32: { type: 'integer', format: 'int32' },
  int64: { type: 'integer', format: 'int64' },
  number: { type: 'number', format: 'double' },
  boolean: { type: 'boolean' },
  time: { type: 'string', format: 'date-time' },
  microTime: { type: 'string', format: 'date-time' },
  byte: { type: 'string', format: 'byte' },
  intOrString: { type: 'string', format: 'int-or-string' },
  quantity: { type: 'string' },
  any: {},
};

/** Definitions of the resources' kinds and of everything they contain, in order of name. */
export function definitionsOf(resources: readonly ResourceFacts[], refPrefix: string): Readonly<Record<string, OpenApiSchema>> {
  const found = new Map<string, OpenApiSchema>();
  for (const resource of resources) {
    const name = definitionName(resource);
    const schema = objectOf(resource.schema, refPrefix, found);
    found.set(name, { ...schema, 'x-kubernetes-group-version-kind': [gvkOf(resource)] });
  }
  return Object.fromEntries(Array.from(found).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

function gvkOf({ group, kind, version }: ResourceFacts): GroupVersionKind {
  return { group, kind, version };
}

/** `io.k8s.v1.Service`; for custom resources with the group reversed. */
function definitionName(resource: ResourceFacts): string {
  if (!resource.custom) return modelName(resource.schema.model);
  return [...resource.group.split('.').toReversed(), resource.version, resource.kind].join('.');
}

/** `V1ServiceSpec` → `io.k8s.v1.ServiceSpec`, `CoreV1Event` → `io.k8s.core.v1.Event`. */
function modelName(model: string): string {
  const [, family = '', version = '', name = model] = /^([A-Z][a-z]+)?(V\d+(?:alpha\d+|beta\d+)?)([A-Z].*)$/.exec(model) ?? [];
  return ['io.k8s', family.toLowerCase(), version.toLowerCase(), name].filter((part) => part !== '').join('.');
}

function schemaOf(schema: Schema, refPrefix: string, found: Map<string, OpenApiSchema>): OpenApiSchema {
  if (schema.type === 'list') return { type: 'array', items: schemaOf(schema.items, refPrefix, found), ...listMarks(schema) };
  if (schema.type === 'map') return { type: 'object', additionalProperties: schemaOf(schema.values, refPrefix, found) };
  if (schema.type !== 'object')
    return { ...scalars[schema.type], ...(schema.rules?.enum === undefined ? {} : { enum: schema.rules.enum }) };
  if (schema.model === '') return objectOf(schema, refPrefix, found);
  const name = modelName(schema.model);
  if (!found.has(name)) {
    found.set(name, {}); // before its fields: kinds may contain themselves
    found.set(name, objectOf(schema, refPrefix, found));
  }
  return { $ref: `${refPrefix}${name}` };
}

function objectOf(schema: ObjectSchema, refPrefix: string, found: Map<string, OpenApiSchema>): OpenApiSchema {
  // Old clients ignore the mark, and would report the unknown fields as errors if they saw the known ones.
  if (schema.open && schema.model === '') return { 'x-kubernetes-preserve-unknown-fields': true };
  const properties = Array.from(schema.fields, ([name, field]) => [name, schemaOf(field.schema, refPrefix, found)] as const);
  const required = Array.from(schema.fields).flatMap(([name, field]) => (field.required ? [name] : []));
  return {
    type: 'object',
    ...(properties.length > 0 ? { properties: Object.fromEntries(properties) } : {}),
    ...(required.length > 0 ? { required } : {}),
  };
}

function listMarks({ semantics: { patch, retainKeys, keys } }: ListSchema): OpenApiSchema {
  const strategy = patch === undefined ? undefined : retainKeys === true ? 'merge,retainKeys' : 'merge';
  const type = keys === undefined ? 'atomic' : keys.length === 0 ? 'set' : 'map';
  return {
    ...(strategy === undefined ? {} : { 'x-kubernetes-patch-strategy': strategy }),
    ...(patch === undefined || patch === '' ? {} : { 'x-kubernetes-patch-merge-key': patch }),
    'x-kubernetes-list-type': type,
    ...(keys === undefined || keys.length === 0 ? {} : { 'x-kubernetes-list-map-keys': keys }),
  };
}

/** One operation, with the fields that clients read: its kind and its query parameters. */
export interface OpenApiOperation {
  readonly kind: GroupVersionKind;
  readonly action: string;
  readonly parameters: readonly string[];
}

type OperationName = 'get' | 'put' | 'post' | 'delete' | 'patch';

const writeParameters = ['dryRun', 'fieldManager', 'fieldValidation'];

/** The paths of every resource with their operations. */
export function pathsOfResources(
  resources: readonly ResourceFacts[],
): ReadonlyMap<string, Readonly<Partial<Record<OperationName, OpenApiOperation>>>> {
  const paths = new Map<string, Readonly<Partial<Record<OperationName, OpenApiOperation>>>>();
  for (const resource of resources) {
    const kind = gvkOf(resource);
    const operation = (action: string, ...parameters: string[]): OpenApiOperation => ({ kind, action, parameters });
    const root = resource.group === '' ? '/api' : '/apis';
    const base = `${root}/${apiVersionOf(resource)}/${resource.namespaced ? 'namespaces/{namespace}/' : ''}${resource.plural}`;
    paths.set(base, { get: operation('list', 'labelSelector', 'fieldSelector', 'watch'), post: operation('post', ...writeParameters) });
    const one = {
      get: operation('get'),
      put: operation('put', ...writeParameters),
      patch: operation('patch', ...writeParameters, 'force'),
      delete: operation('delete', 'dryRun', 'gracePeriodSeconds', 'propagationPolicy'),
    };
    paths.set(`${base}/{name}`, one);
    if (resource.subresources.includes('status')) paths.set(`${base}/{name}/status`, { get: one.get, put: one.put, patch: one.patch });
  }
  return paths;
}
