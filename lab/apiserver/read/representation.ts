import { mediaRanges, notAcceptable } from '../http/media-ranges.ts';
import type { ApiObject } from '../object/api-object.ts';
import type { ApiResource } from '../resource/resource.ts';
import type { StoredObject } from '../store/store.ts';

/** Form of an answer: whole objects, rows for a terminal, or metadata only. */
export type Representation =
  | { readonly as: 'object' }
  | { readonly as: 'table'; readonly version: string; readonly include: 'None' | 'Metadata' | 'Object' }
  | { readonly as: 'metadata'; readonly version: string };

const jsonTypes: ReadonlySet<string> = new Set(['application/json', '*/*', 'application/*', '']);

/** @throws ApiError 406 if no accepted media type is available */
export function chooseRepresentation(accept: string, query: URLSearchParams): Representation {
  for (const { type, parameters } of mediaRanges(accept)) {
    if (!jsonTypes.has(type)) continue;
    const [as, version = 'v1', group = 'meta.k8s.io'] = ['as', 'v', 'g'].map((name) => parameters.get(name));
    if (as === undefined) return { as: 'object' };
    if (group !== 'meta.k8s.io' || (version !== 'v1' && version !== 'v1beta1')) continue;
    if (as === 'Table') return { as: 'table', version, include: includeOf(query.get('includeObject')) };
    if (as.startsWith('PartialObjectMetadata')) return { as: 'metadata', version };
  }
  throw notAcceptable();
}

function includeOf(text: string | null): 'None' | 'Metadata' | 'Object' {
  return text === 'None' || text === 'Object' ? text : 'Metadata';
}

/** One object as JSON text, in the resource's version and the requested form. */
export function renderObject(resource: ApiResource, entry: StoredObject, representation: Representation, nowMs: number): string {
  if (representation.as === 'object')
    return resource.fromStored === undefined ? versionedJson(resource, entry) : JSON.stringify(resource.fromStored(entry.object));
  if (representation.as === 'metadata') return JSON.stringify(partial(entry.object, representation.version));
  return JSON.stringify(
    tableOf(resource, [entry.object], representation, { resourceVersion: entry.object.metadata.resourceVersion }, nowMs),
  );
}

/** A custom resource may be stored in another of its versions. */
function versionedJson({ custom, group, version }: ApiResource, entry: StoredObject): string {
  const apiVersion = `${group}/${version}`;
  return !custom || entry.object.apiVersion === apiVersion ? entry.json : JSON.stringify({ ...entry.object, apiVersion });
}

export interface ListMeta {
  readonly resourceVersion: string;
  readonly continue?: string;
  readonly remainingItemCount?: number;
}

/** A whole list as JSON text. The cached texts of entries are joined, which keeps large lists cheap. */
export function renderList(
  resource: ApiResource,
  entries: readonly StoredObject[],
  metadata: ListMeta,
  representation: Representation,
  nowMs: number,
): string {
  if (representation.as === 'table')
    return JSON.stringify(
      tableOf(
        resource,
        entries.map(({ object }) => object),
        representation,
        metadata,
        nowMs,
      ),
    );
  const apiVersion =
    representation.as === 'metadata'
      ? `meta.k8s.io/${representation.version}`
      : resource.group === ''
        ? resource.version
        : `${resource.group}/${resource.version}`;
  const kind = representation.as === 'metadata' ? 'PartialObjectMetadataList' : `${resource.kind}List`;
  const items = entries.map((entry) => renderObject(resource, entry, representation, nowMs));
  return `{"kind":"${kind}","apiVersion":"${apiVersion}","metadata":${JSON.stringify(metadata)},"items":[${items.join(',')}]}`;
}

function partial({ metadata }: ApiObject, version: string): object {
  return { kind: 'PartialObjectMetadata', apiVersion: `meta.k8s.io/${version}`, metadata };
}

type TableForm = Extract<Representation, { readonly as: 'table' }>;

function tableOf(
  resource: ApiResource,
  objects: readonly ApiObject[],
  { version, include }: TableForm,
  metadata: ListMeta,
  nowMs: number,
): object {
  return {
    kind: 'Table',
    apiVersion: `meta.k8s.io/${version}`,
    metadata,
    columnDefinitions: resource.columns.map(({ name, type, format = '', description = name, priority = 0 }) => ({
      name,
      type,
      format,
      description,
      priority,
    })),
    rows: objects.map((stored) => {
      const object = resource.fromStored?.(stored) ?? stored;
      return {
        cells: resource.columns.map((column) => column.cell(object, nowMs)),
        ...(include === 'None' ? {} : { object: include === 'Object' ? object : partial(object, version) }),
      };
    }),
  };
}
