import { beforeEach, expect, it } from 'vitest';
import { refusalOf } from '../../../test/support/api-refusal.ts';
import { openClusterObjects } from '../cluster-objects.ts';
import { builtIn } from '../controllers/access.ts';
import type { ApiObject } from '../object/api-object.ts';
import type { JsonRecord } from '../object/json.ts';
import type { Registry } from '../resource/registry.ts';
import type { ApiResource } from '../resource/resource.ts';
import { Store } from '../store/store.ts';
import type { ObjectWriter } from '../write/object-writer.ts';
import { resourcesOfDefinition } from './crd-resources.ts';

let store: Store;
let registry: Registry;
let writer: ObjectWriter;

beforeEach(() => {
  store = new Store();
  ({ registry, writer } = openClusterObjects({ store, serviceCidrs: [], nodePortRange: { first: 1, last: 0 }, now: () => 0 }));
});

function define(properties: JsonRecord, more: JsonRecord = {}): ApiObject {
  const schema = { openAPIV3Schema: { type: 'object', required: ['spec'], properties: { spec: { type: 'object', properties, ...more } } } };
  const versions = [
    {
      name: 'v1',
      served: true,
      storage: true,
      schema,
      additionalPrinterColumns: [{ name: 'Size', type: 'integer', jsonPath: '.spec.size' }],
    },
  ];
  const spec = { group: 'example.com', scope: 'Namespaced', names: { plural: 'widgets', kind: 'Widget' }, versions };
  return writer.create(
    builtIn(registry, 'apiextensions.k8s.io', 'customresourcedefinitions'),
    undefined,
    { metadata: { name: 'widgets.example.com' }, spec },
    {},
  );
}

function widgets(properties: JsonRecord, more: JsonRecord = {}): ApiResource {
  const [resource] = resourcesOfDefinition(define(properties, more));
  if (resource === undefined) throw new Error('a version is served');
  return resource;
}

function make(resource: ApiResource, spec: unknown): unknown {
  return writer.create(resource, 'default', { metadata: { generateName: 'w-' }, spec }, { fieldValidation: 'Strict' }).spec;
}

const refusal = (act: () => unknown): string => refusalOf(act).message;

it('creates a resource for a definition', () => {
  const resource = widgets({ size: { type: 'integer' } });
  expect(resource).toMatchObject({
    group: 'example.com',
    version: 'v1',
    plural: 'widgets',
    singular: 'widget',
    kind: 'Widget',
    namespaced: true,
    custom: true,
  });
  const object = writer.create(resource, 'default', { metadata: { name: 'w' }, spec: { size: 7 } }, {});
  expect(resource.columns.map((column) => column.cell(object, 0))).toEqual(['w', 7]);
});

it('fills in defaults, also inside present objects', () => {
  const resource = widgets({
    color: { type: 'string', default: 'red' },
    inner: { type: 'object', properties: { n: { type: 'integer', default: 3 } } },
  });
  expect(make(resource, {})).toEqual({ color: 'red' });
  expect(make(resource, { inner: {} })).toEqual({ color: 'red', inner: { n: 3 } });
});

it('keeps unknown fields only if the schema preserves them', () => {
  const resource = widgets({
    free: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
    map: { type: 'object', additionalProperties: { type: 'integer' } },
  });
  expect(make(resource, { free: { a: [1] }, map: { x: 1 } })).toEqual({ free: { a: [1] }, map: { x: 1 } });
  expect(refusal(() => make(resource, { other: 1 }))).toContain('strict decoding error: unknown field "spec.other"');
});

for (const [properties, spec, text] of [
  [{ size: { type: 'integer' } }, { size: 'x' }, 'spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"'],
  [{ size: { type: 'integer', minimum: 1 } }, { size: 0 }, 'spec.size in body should be greater than or equal to 1'],
  [{ color: { type: 'string', enum: ['red'] } }, { color: 'blue' }, 'spec.color: Unsupported value: "blue": supported values: "red"'],
  [{ name: { type: 'string', pattern: '^[a-z]+$' } }, { name: 'A' }, "spec.name in body should match '^[a-z]+$'"],
  [
    { list: { type: 'array', items: { type: 'string' }, 'x-kubernetes-list-type': 'set' } },
    { list: ['a', 'a'] },
    'spec.list[1]: Duplicate value: "a"',
  ],
  [
    { list: { type: 'array', items: { type: 'string' }, maxItems: 1 } },
    { list: ['a', 'b'] },
    'spec.list: Too many: 2: must have at most 1 items',
  ],
] as const) {
  it(`refuses ${JSON.stringify(spec)} for ${JSON.stringify(properties)}`, () => {
    expect(refusal(() => make(widgets(properties), spec))).toContain(text);
  });
}

it('requires required fields, numbers too', () => {
  expect(refusal(() => make(widgets({ size: { type: 'integer' } }, { required: ['size'] }), {}))).toContain('spec.size: Required value');
});

it('refuses a definition under a wrong name', () => {
  const bad = () =>
    writer.create(
      builtIn(registry, 'apiextensions.k8s.io', 'customresourcedefinitions'),
      undefined,
      {
        metadata: { name: 'x.example.com' },
        spec: {
          group: 'example.com',
          scope: 'Cluster',
          names: { plural: 'y', kind: 'Y' },
          versions: [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: { type: 'object' } } }],
        },
      },
      {},
    );
  expect(refusal(bad)).toContain('metadata.name: Invalid value: "x.example.com": must be spec.names.plural+"."+spec.group');
});
