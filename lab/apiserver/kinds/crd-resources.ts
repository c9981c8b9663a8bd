import type { CustomResourceColumnDefinition, CustomResourceDefinitionSpec, JSONSchemaProps } from 'kubernetes-types/apiextensions/v1.d.ts';
import type { ApiObject } from '../object/api-object.ts';
import { defined, textAt } from '../object/json.ts';
import { readJsonPath } from '../object/json-path.ts';
import { type ApiResource, ageColumn, humanAge, nameColumn, type PrinterColumn, type SelectableFields } from '../resource/resource.ts';
import { applyDefaults } from '../schema/crd-validation.ts';
import {
  modelSchema,
  type ObjectSchema,
  objectMetaSchema,
  type Rules,
  type ScalarType,
  type Schema,
  type SchemaField,
} from '../schema/schema.ts';

/** The extensions that the types package omits. */
interface Props extends JSONSchemaProps {
  readonly 'x-kubernetes-int-or-string'?: boolean;
  readonly 'x-kubernetes-preserve-unknown-fields'?: boolean;
  readonly 'x-kubernetes-embedded-resource'?: boolean;
  readonly 'x-kubernetes-map-type'?: string;
  readonly 'x-kubernetes-list-type'?: string;
  readonly 'x-kubernetes-list-map-keys'?: readonly string[];
}

/** The resources of a definition, one for each served version. */
export function resourcesOfDefinition(definition: ApiObject): readonly ApiResource[] {
  const { group, names, scope, versions } = definition.spec as CustomResourceDefinitionSpec;
  return versions
    .filter(({ served }) => served)
    .map((version) => {
      const schema = rootSchema(version.schema?.openAPIV3Schema ?? {});
      return {
        group,
        version: version.name,
        kind: names.kind,
        plural: names.plural,
        singular: names.singular ?? names.kind.toLowerCase(),
        shortNames: names.shortNames ?? [],
        categories: names.categories ?? [],
        namespaced: scope === 'Namespaced',
        storage: `${group}/${names.plural}`,
        schema,
        subresources: version.subresources?.status === undefined ? [] : ['status'],
        generation: true,
        nameRule: 'subdomain',
        columns: columnsOf(version.additionalPrinterColumns),
        fields: selectableFields(version),
        strategy: { defaults: (draft) => applyDefaults(draft, schema) },
        graceful: false,
        custom: true,
      };
    });
}

function selectableFields(version: object): SelectableFields {
  const list = (version as { readonly selectableFields?: readonly { readonly jsonPath: string }[] }).selectableFields ?? [];
  return Object.fromEntries(
    list.map(({ jsonPath }) => {
      const path = jsonPath.replace(/^\./, '');
      return [path, (object: ApiObject) => textAt(object, ...path.split('.'))] as const;
    }),
  );
}

function columnsOf(columns: readonly CustomResourceColumnDefinition[] | undefined): readonly PrinterColumn[] {
  if (columns === undefined || columns.length === 0) return [nameColumn, ageColumn];
  return [
    nameColumn,
    ...columns.map((column): PrinterColumn => {
      const { name, type, format = '', description = '', priority = 0, jsonPath } = column;
      const shown = type === 'date' ? 'string' : (type as PrinterColumn['type']);
      return {
        name,
        type: shown,
        format,
        description,
        priority,
        cell: (object, nowMs) => cellOf(readJsonPath(object, jsonPath), type, nowMs),
      };
    }),
  ];
}

function cellOf(value: unknown, type: string, nowMs: number): string | number | boolean | null {
  if (value === undefined || value === null) return type === 'date' ? '<unknown>' : null;
  if (type === 'date') return humanAge(String(value), nowMs);
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? value : JSON.stringify(value);
}

function rootSchema(props: JSONSchemaProps): ObjectSchema {
  const root = schemaOf({ ...props, type: 'object' });
  const own = root.type === 'object' ? root : { ...modelSchema('V1ObjectMeta'), fields: new Map<string, SchemaField>(), open: true };
  const fields = new Map(own.fields);
  fields.set('apiVersion', { schema: { type: 'string' }, required: false });
  fields.set('kind', { schema: { type: 'string' }, required: false });
  fields.set('metadata', { schema: objectMetaSchema, required: false });
  return { ...own, model: '', fields };
}

const formats: Readonly<Record<string, ScalarType>> = { int32: 'int32', int64: 'int64', byte: 'byte' };

/** Converts a structural schema. Keywords without a counterpart (allOf, anyOf, oneOf, not, validation rules) are not checked. */
function schemaOf(props: Props): Schema {
  const rules = rulesOf(props);
  if (props['x-kubernetes-int-or-string'] === true) return { type: 'intOrString', rules };
  const open = props['x-kubernetes-preserve-unknown-fields'] === true || props['x-kubernetes-embedded-resource'] === true;
  switch (props.type) {
    case 'string':
      return { type: props.format === 'byte' ? 'byte' : 'string', rules };
    case 'integer':
      return { type: formats[props.format ?? ''] ?? 'int64', rules };
    case 'number':
      return { type: 'number', rules };
    case 'boolean':
      return { type: 'boolean', rules };
    case 'array':
      return { type: 'list', items: schemaOf((props.items ?? {}) as JSONSchemaProps), semantics: semanticsOf(props), rules };
    case 'object':
      return objectOrMap(props, open, rules);
    default:
      return open && props.properties !== undefined ? objectOrMap(props, open, rules) : { type: 'any', rules };
  }
}

function objectOrMap(props: Props, open: boolean, rules: Rules): Schema {
  const atomic = props['x-kubernetes-map-type'] === 'atomic';
  if (props.properties === undefined && props.additionalProperties !== undefined && props.additionalProperties !== false) {
    const values =
      props.additionalProperties === true ? ({ type: 'any' } as const) : schemaOf(props.additionalProperties as JSONSchemaProps);
    return { type: 'map', values, atomic, rules };
  }
  const required = new Set(props.required);
  const fields = new Map(
    Object.entries(props.properties ?? {}).map(([name, child]) => [name, { schema: schemaOf(child), required: required.has(name) }]),
  );
  return { type: 'object', model: '', fields, open, atomic, rules };
}

function semanticsOf(props: Props): { readonly keys?: readonly string[] } {
  if (props['x-kubernetes-list-type'] === 'set') return { keys: [] };
  return props['x-kubernetes-list-type'] === 'map' ? { keys: props['x-kubernetes-list-map-keys'] ?? [] } : {};
}

/** Rules with the same name in a definition and in our schemas. */
const plainRules = [
  'nullable',
  'pattern',
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'minLength',
  'maxLength',
  'minItems',
  'maxItems',
  'minProperties',
  'maxProperties',
  'format',
] as const satisfies readonly (keyof Rules & keyof JSONSchemaProps)[];

function rulesOf(props: JSONSchemaProps): Rules {
  const plain = Object.fromEntries(plainRules.map((name) => [name, props[name]]));
  return defined({ ...plain, default: props.default as unknown, enum: props.enum as readonly unknown[] | undefined }) as Rules;
}
