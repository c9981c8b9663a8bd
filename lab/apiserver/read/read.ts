import { ApiError, badRequest, expired, notFound } from '../errors/api-error.ts';
import { objectKey } from '../object/api-object.ts';
import type { ApiResource } from '../resource/resource.ts';
import type { Store, StoredObject } from '../store/store.ts';
import { type ListMeta, type Representation, renderList, renderObject } from './representation.ts';
import type { ObjectSelection } from './selection.ts';

interface ReadPorts {
  readonly store: Pick<Store, 'get' | 'list' | 'listAt' | 'revision'>;
  /** Plural names of kinds whose cache is empty: lists and watches show none of them; only a quorum read returns the objects. */
  readonly forgotten: ReadonlySet<string>;
  /** Milliseconds since 1970. */
  now(): number;
}

/** An object as JSON text. @throws ApiError 404 */
export function renderNamed(
  { store, now }: ReadPorts,
  resource: ApiResource,
  [namespace, name]: readonly [namespace: string | undefined, name: string],
  representation: Representation,
): string {
  const entry = store.get(resource.storage, objectKey(namespace, name));
  if (entry === undefined) throw notFound(resource, name);
  return renderObject(resource, entry, representation, now());
}

interface ListQuery {
  readonly limit: number;
  readonly continueFrom: string;
  readonly resourceVersion: string;
  readonly match: string;
  /** True if a label or field selector is set. */
  readonly selective: boolean;
}

export function listQuery(query: URLSearchParams): ListQuery {
  const limit = Number(query.get('limit') ?? 0);
  if (!Number.isInteger(limit) || limit < 0) throw badRequest(`limit: Invalid value: ${query.get('limit')}`);
  return {
    limit,
    continueFrom: query.get('continue') ?? '',
    resourceVersion: query.get('resourceVersion') ?? '',
    match: query.get('resourceVersionMatch') ?? '',
    selective: [query.get('labelSelector'), query.get('fieldSelector')].some((selector) => selector !== null && selector !== ''),
  };
}

/**
 * A page of a list as JSON text. All pages show the state at the version of the first.
 *
 * @throws ApiError 400 (a continue token of another server), 410 (a compacted version), 504 (a future version)
 */
export function renderPage(
  ports: ReadPorts,
  resource: ApiResource,
  selection: ObjectSelection,
  query: ListQuery,
  representation: Representation,
): string {
  const token = parseToken(query.continueFrom);
  checkVersion(ports.store, query);
  const revision = token?.revision ?? (query.match === 'Exact' ? Number(query.resourceVersion) : ports.store.revision);
  const isQuorumRead = query.resourceVersion === '';
  const selected = (isQuorumRead ? entriesAt(ports.store, resource, revision) : cachedAt(ports, resource, revision)).filter(({ object }) =>
    selection.matches(object),
  );
  const rest = token === undefined ? selected : selected.slice(firstAfter(selected, token.key));
  const page = query.limit === 0 ? rest : rest.slice(0, query.limit);
  const last = page.at(-1);
  const more = rest.length - page.length;
  const metadata: ListMeta = {
    resourceVersion: String(revision),
    ...(more > 0 && last !== undefined ? { continue: tokenOf(revision, keyIn(last)) } : {}),
    // Kubernetes does not count the items of a selector.
    ...(more > 0 && !query.selective ? { remainingItemCount: more } : {}),
  };
  return renderList(resource, page, metadata, representation, ports.now());
}

/** @throws ApiError 410 */
function entriesAt(store: ReadPorts['store'], resource: ApiResource, revision: number): readonly StoredObject[] {
  const entries = revision >= store.revision ? store.list(resource.storage) : store.listAt(resource.storage, revision);
  if (entries === 'gone') throw expired('The provided continue parameter or version is too old: start the list again');
  return entries;
}

function cachedAt({ store, forgotten }: ReadPorts, resource: ApiResource, revision: number): readonly StoredObject[] {
  return forgotten.has(resource.plural) ? [] : entriesAt(store, resource, revision);
}

export function entriesOf(store: Pick<Store, 'list'>, resource: ApiResource, selection: ObjectSelection): readonly StoredObject[] {
  return store.list(resource.storage).filter(({ object }) => selection.matches(object));
}

function keyIn({ object }: StoredObject): string {
  return objectKey(object.metadata.namespace, object.metadata.name);
}

function firstAfter(entries: readonly StoredObject[], key: string): number {
  const index = entries.findIndex((entry) => keyIn(entry) > key);
  return index < 0 ? entries.length : index;
}

function checkVersion({ revision }: Pick<Store, 'revision'>, { resourceVersion, match, continueFrom }: ListQuery): void {
  if (resourceVersion !== '' && !/^\d+$/.test(resourceVersion)) throw badRequest(`resourceVersion: Invalid value: "${resourceVersion}"`);
  if (match !== '' && match !== 'Exact' && match !== 'NotOlderThan')
    throw badRequest(`resourceVersionMatch: Unsupported value: "${match}": supported values: "Exact", "NotOlderThan"`);
  if (match !== '' && resourceVersion === '')
    throw badRequest('resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided');
  if (match !== '' && continueFrom !== '')
    throw badRequest('resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided');
  const wanted = Number(resourceVersion);
  if (wanted > revision) throw tooLarge(wanted, revision);
}

export function tooLarge(wanted: number, current: number): ApiError {
  return new ApiError(504, 'Timeout', `Too large resource version: ${wanted}, current: ${current}`, {
    causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version', field: '' }],
    retryAfterSeconds: 1,
  });
}

function tokenOf(revision: number, key: string): string {
  return Buffer.from(JSON.stringify({ revision, key })).toString('base64url');
}

function parseToken(text: string): { readonly revision: number; readonly key: string } | undefined {
  if (text === '') return undefined;
  try {
    const { revision, key } = JSON.parse(Buffer.from(text, 'base64url').toString()) as { revision?: unknown; key?: unknown };
    if (typeof revision === 'number' && typeof key === 'string') return { revision, key };
  } catch {
    // Falls through to the same answer.
  }
  throw badRequest('continue key is not valid');
}
