import { ApiError, badRequest, expired, notFound } from './api-error.ts';
import type { Core } from './core.ts';
import { objectKey } from './kube-object.ts';
import { type ListMeta, type Representation, renderList, renderObject } from './representation.ts';
import type { Resource } from './resource.ts';
import type { Selection } from './selection.ts';
import type { Entry } from './store.ts';

/** @throws ApiError 404 */
export function getObject(core: Core, resource: Resource, namespace: string | undefined, name: string): Entry {
  const entry = core.store.get(resource.storage, objectKey(namespace, name));
  if (entry === undefined) throw notFound(resource, name);
  return entry;
}

export function renderGet(core: Core, resource: Resource, entry: Entry, representation: Representation): string {
  return renderObject(resource, entry, representation, core.now());
}

export interface ListQuery {
  readonly limit: number;
  readonly continueFrom: string;
  readonly resourceVersion: string;
  readonly match: string;
  /** By label or field. */
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
 * @throws ApiError 400 (a token that is none of this server's), 410 (a version that is forgotten), 504 (a version still to come)
 */
export function renderPage(core: Core, resource: Resource, selection: Selection, query: ListQuery, representation: Representation): string {
  const token = parseToken(query.continueFrom);
  checkVersion(core, query);
  const revision = token?.revision ?? (query.match === 'Exact' ? Number(query.resourceVersion) : core.store.revision);
  const isQuorumRead = query.resourceVersion === '';
  const selected = (isQuorumRead ? entriesAt(core, resource, revision) : cachedAt(core, resource, revision)).filter(({ object }) =>
    selection.matches(object),
  );
  const rest = token === undefined ? selected : selected.slice(firstAfter(selected, token.key));
  const page = query.limit === 0 ? rest : rest.slice(0, query.limit);
  const last = page.at(-1);
  const more = rest.length - page.length;
  const metadata: ListMeta = {
    resourceVersion: String(revision),
    ...(more > 0 && last !== undefined ? { continue: tokenOf(revision, keyIn(last)) } : {}),
    // Kubernetes does not count what a selector picks.
    ...(more > 0 && !query.selective ? { remainingItemCount: more } : {}),
  };
  return renderList(resource, page, metadata, representation, core.now());
}

/** @throws ApiError 410 */
function entriesAt(core: Core, resource: Resource, revision: number): readonly Entry[] {
  const entries = revision >= core.store.revision ? core.store.list(resource.storage) : core.store.listAt(resource.storage, revision);
  if (entries === 'gone') throw expired('The provided continue parameter or version is too old: start the list again');
  return entries;
}

function cachedAt(core: Core, resource: Resource, revision: number): readonly Entry[] {
  return core.forgotten.has(resource.plural) ? [] : entriesAt(core, resource, revision);
}

export function entriesOf(core: Core, resource: Resource, selection: Selection): readonly Entry[] {
  return core.store.list(resource.storage).filter(({ object }) => selection.matches(object));
}

function keyIn({ object }: Entry): string {
  return objectKey(object.metadata.namespace, object.metadata.name);
}

function firstAfter(entries: readonly Entry[], key: string): number {
  const index = entries.findIndex((entry) => keyIn(entry) > key);
  return index < 0 ? entries.length : index;
}

function checkVersion(core: Core, { resourceVersion, match, continueFrom }: ListQuery): void {
  if (resourceVersion !== '' && !/^\d+$/.test(resourceVersion)) throw badRequest(`resourceVersion: Invalid value: "${resourceVersion}"`);
  if (match !== '' && match !== 'Exact' && match !== 'NotOlderThan')
    throw badRequest(`resourceVersionMatch: Unsupported value: "${match}": supported values: "Exact", "NotOlderThan"`);
  if (match !== '' && resourceVersion === '')
    throw badRequest('resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided');
  if (match !== '' && continueFrom !== '')
    throw badRequest('resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided');
  const wanted = Number(resourceVersion);
  if (wanted > core.store.revision) throw tooLarge(wanted, core.store.revision);
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
