import type { FieldErrors } from '../errors/field-errors.ts';
import type { ApiObject } from '../object/api-object.ts';
import { modelSchema, type ObjectSchema } from '../schema/schema.ts';

/** One column of `kubectl get`. */
export interface PrinterColumn {
  readonly name: string;
  readonly type: 'string' | 'integer' | 'date' | 'number' | 'boolean';
  /** `name` marks the column that names the object. */
  readonly format?: string;
  readonly description?: string;
  /** 0: always shown; 1: with `-o wide`. */
  readonly priority?: number;
  cell(object: ApiObject, nowMs: number): string | number | boolean | null;
}

export type NameRule = 'subdomain' | 'label' | 'service' | 'segment';

/** Behaviour of a kind besides storage. Every function may change `draft`, never `old`. */
export interface Strategy {
  /** Fills in omitted fields, on create and update. */
  readonly defaults?: (draft: ApiObject, old: ApiObject | undefined) => void;
  /** Sets the fields that only the server decides, after the defaults; rejects through `errors`. */
  readonly prepare?: (draft: ApiObject, old: ApiObject | undefined, errors: FieldErrors, cluster: Cluster) => void;
  readonly validate?: (object: ApiObject, old: ApiObject | undefined, errors: FieldErrors) => void;
}

/** Queries of strategies about the rest of the cluster. */
interface Cluster {
  readonly services: ServiceRanges;
}

/** Addresses and ports allocated to Services, from the store. */
export interface ServiceRanges {
  /** Families in order of preference; the first is the cluster's default. */
  readonly families: readonly ('IPv4' | 'IPv6')[];
  /** @returns undefined if the range is used up */
  freeAddress(family: 'IPv4' | 'IPv6'): string | undefined;
  /** The reason why the Service of this key cannot have an address; undefined if it can. */
  refusedAddress(address: string, family: 'IPv4' | 'IPv6', key: string): string | undefined;
  /** @param taken ports already chosen in this request, `TCP/30080` */
  freePort(protocols: readonly string[], taken: ReadonlySet<string>): number | undefined;
  refusedPort(port: number, protocol: string, key: string): string | undefined;
}

export type SelectableFields = Readonly<Record<string, (object: ApiObject) => string>>;

/** Names and storage properties of a served kind, for discovery, reads and deletion. */
export interface ResourceFacts {
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly singular: string;
  readonly kind: string;
  readonly shortNames: readonly string[];
  readonly categories: readonly string[];
  readonly namespaced: boolean;
  /** Storage name; kinds that show the same objects in several versions or groups share it. */
  readonly storage: string;
  readonly schema: ObjectSchema;
  readonly subresources: readonly string[];
  /** True if `metadata.generation` counts changes of everything but metadata and status. */
  readonly generation: boolean;
  readonly nameRule: NameRule;
  /** True if deletion waits for the kubelet to delete again with grace 0. */
  readonly graceful: boolean;
  /** True for a custom resource. */
  readonly custom: boolean;
}

/** One served kind in one version, with its strategies: a row of the API. */
export interface ApiResource extends ResourceFacts {
  readonly columns: readonly PrinterColumn[];
  readonly fields: SelectableFields;
  readonly strategy: Strategy;
  /** Conversion from and to the stored version, if they differ. */
  readonly toStored?: (object: ApiObject) => ApiObject;
  readonly fromStored?: (object: ApiObject) => ApiObject;
}

/** Required fields of a row of the kinds tables; the rest has defaults. */
export type ResourceRow = Pick<ApiResource, 'kind' | 'plural' | 'namespaced'> & { readonly model?: string } & Partial<
    Omit<ApiResource, 'schema'>
  >;

export function resourceOf(row: ResourceRow): ApiResource {
  const { group = '', version = 'v1', kind, plural, model = `V1${kind}`, ...rest } = row;
  return {
    group,
    version,
    singular: kind.toLowerCase(),
    shortNames: [],
    categories: [],
    storage: group === '' ? plural : `${group}/${plural}`,
    schema: modelSchema(model),
    subresources: [],
    generation: false,
    nameRule: 'subdomain',
    columns: [nameColumn, ageColumn],
    fields: {},
    strategy: {},
    graceful: false,
    custom: false,
    ...rest,
    kind,
    plural,
  };
}

export function apiVersionOf({ group, version }: Pick<ApiResource, 'group' | 'version'>): string {
  return group === '' ? version : `${group}/${version}`;
}

export const nameColumn: PrinterColumn = { name: 'Name', type: 'string', format: 'name', cell: (object) => object.metadata.name };

export const ageColumn: PrinterColumn = {
  name: 'Age',
  type: 'string',
  cell: (object, nowMs) => humanAge(object.metadata.creationTimestamp, nowMs),
};

/** Age as kubectl writes it: `42s`, `3m12s`, `5h`, `12d`. */
export function humanAge(timestamp: string | undefined, nowMs: number): string {
  const then = Date.parse(timestamp ?? '');
  if (Number.isNaN(then)) return '<unknown>';
  const seconds = Math.max(0, Math.floor((nowMs - then) / 1000));
  const [minutes, hours, days] = [Math.floor(seconds / 60), Math.floor(seconds / 3600), Math.floor(seconds / 86_400)];
  const two = (large: number, largeUnit: string, small: number, smallUnit: string) =>
    small === 0 ? `${large}${largeUnit}` : `${large}${largeUnit}${small}${smallUnit}`;
  if (seconds < 120) return `${seconds}s`;
  if (minutes < 10) return two(minutes, 'm', seconds % 60, 's');
  if (hours < 3) return `${minutes}m`;
  if (hours < 8) return two(hours, 'h', minutes % 60, 'm');
  if (hours < 48) return `${hours}h`;
  if (days < 8) return two(days, 'd', hours % 24, 'h');
  if (days < 730) return `${days}d`;
  return two(Math.floor(days / 365), 'y', days % 365, 'd');
}
