import { createHash } from 'node:crypto';
import { pathNotFound } from '../errors/api-error.ts';
import { type ApiRequest, jsonResponse, type WholeResponse } from '../http/api-request.ts';
import { mediaRanges } from '../http/media-ranges.ts';
import type { Registry } from '../resource/registry.ts';
import { apiVersionOf, type ResourceFacts } from '../resource/resource.ts';
import { definitionsOf, type OpenApiOperation, pathsOfResources } from './openapi-schema.ts';
import { mapValues, openApiV2Json } from './openapi-v2.ts';
import { openApiV2Proto } from './openapi-v2-proto.ts';

/** Media types of OpenAPI v2. The first is requested by old clients; `@` is not allowed in a media type, so neither is returned. */
const v2ProtoTypes: ReadonlySet<string> = new Set([
  'application/com.github.proto-openapi.spec.v2@v1.0+protobuf',
  'application/com.github.proto-openapi.spec.v2.v1.0+protobuf',
]);

interface Documents {
  readonly generation: number;
  readonly texts: Map<string, string | Uint8Array>;
}

/** Documents, built at the first request and again after the kinds change. One set for each registry. */
const kept = new WeakMap<Registry, Documents>();

function document<T extends string | Uint8Array>(registry: Registry, name: string, make: () => T): T {
  let documents = kept.get(registry);
  if (documents === undefined || documents.generation !== registry.generation) {
    documents = { generation: registry.generation, texts: new Map() };
    kept.set(registry, documents);
  }
  const there = documents.texts.get(name) as T | undefined;
  const text = there ?? make();
  documents.texts.set(name, text);
  return text;
}

/** @throws ApiError 404 */
export function serveOpenApi(registry: Registry, { path, accept }: ApiRequest): WholeResponse {
  if (path === '/openapi/v2') return serveV2(registry, accept);
  const [, , , ...names] = path.replace(/\/+$/, '').split('/');
  if (!path.startsWith('/openapi/v3')) throw pathNotFound();
  if (names.length === 0)
    return jsonResponse(
      200,
      document(registry, 'v3', () => JSON.stringify(v3Index(registry))),
    );
  const served = registry.all().filter((resource) => documentPath(resource) === names.join('/'));
  if (served.length === 0) throw pathNotFound();
  return jsonResponse(
    200,
    document(registry, `v3 ${names.join('/')}`, () => v3Text(served)),
  );
}

function serveV2(registry: Registry, accept: string): WholeResponse {
  for (const { type } of mediaRanges(accept)) {
    if (v2ProtoTypes.has(type))
      return {
        code: 200,
        contentType: 'application/com.github.proto-openapi.spec.v2.v1.0+protobuf',
        body: document(registry, 'v2 proto', () => openApiV2Proto(registry.all())),
      };
    if (type === 'application/json' || type === '*/*' || type === '') break;
  }
  return jsonResponse(
    200,
    document(registry, 'v2', () => JSON.stringify(openApiV2Json(registry.all()))),
  );
}

function documentPath(resource: ResourceFacts): string {
  return `${resource.group === '' ? 'api' : 'apis'}/${apiVersionOf(resource)}`;
}

/** Each address carries a hash of its document, since clients cache documents by address. */
function v3Index(registry: Registry): object {
  const byPath = new Map<string, ResourceFacts[]>();
  for (const resource of registry.all()) byPath.set(documentPath(resource), [...(byPath.get(documentPath(resource)) ?? []), resource]);
  const entries = Array.from(byPath, ([path, resources]) => {
    const hash = createHash('sha256').update(v3Text(resources)).digest('hex').slice(0, 32).toUpperCase();
    return [path, { serverRelativeURL: `/openapi/v3/${path}?hash=${hash}` }] as const;
  });
  return { paths: Object.fromEntries(entries) };
}

function v3Text(resources: readonly ResourceFacts[]): string {
  const paths = Array.from(pathsOfResources(resources), ([path, operations]) => [path, mapValues(operations, operationJson)] as const);
  return JSON.stringify({
    openapi: '3.0.0',
    info: { title: 'Kubernetes', version: 'v1.36.0' },
    paths: Object.fromEntries(paths),
    components: { schemas: definitionsOf(resources, '#/components/schemas/') },
  });
}

function operationJson({ kind, action, parameters }: OpenApiOperation): object {
  return {
    parameters: parameters.map((name) => ({ name, in: 'query', schema: { type: 'string', uniqueItems: true } })),
    responses: { 200: { description: 'OK' } },
    'x-kubernetes-action': action,
    'x-kubernetes-group-version-kind': kind,
  };
}
