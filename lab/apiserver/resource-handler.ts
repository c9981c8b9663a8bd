import type { Admission } from './access/admission.ts';
import { decodeProtoBody, protobufType } from './body/proto-body.ts';
import { protoFields } from './body/proto-fields.ts';
import { parseYamlOrJson } from './body/text-body.ts';
import { ApiError, badRequest, expired, methodNotAllowed, pathNotFound } from './errors/api-error.ts';
import { type ApiRequest, type ApiResponse, isTrue, jsonResponse } from './http/api-request.ts';
import { parseResourcePath, type ResourcePath } from './http/resource-path.ts';
import type { ApiObject } from './object/api-object.ts';
import { isObject, type JsonRecord } from './object/json.ts';
import { entriesOf, listQuery, renderNamed, renderPage, tooLarge } from './read/read.ts';
import type { ReadBehaviour } from './read/read-behaviour.ts';
import { chooseRepresentation, renderObject } from './read/representation.ts';
import { selectionOf } from './read/selection.ts';
import { serveWatch, watchQuery } from './read/watch.ts';
import type { Registry } from './resource/registry.ts';
import { type ApiResource, apiVersionOf } from './resource/resource.ts';
import { type Store, StoredObject } from './store/store.ts';
import type { DeleteOptions } from './write/deletion.ts';
import type { ObjectWriter } from './write/object-writer.ts';
import { type PatchType, patchObject, patchTypes } from './write/patch/patch.ts';
import { type BindPod, evictPod } from './write/pod-subresources.ts';
import type { FieldValidation, WriteOptions } from './write/write-options.ts';

export interface ResourcePorts {
  readonly store: Pick<Store, 'get' | 'list' | 'listAt' | 'changesSince' | 'subscribe' | 'revision'>;
  readonly registry: Pick<Registry, 'find'>;
  readonly writer: Pick<ObjectWriter, 'create' | 'update' | 'delete'>;
  readonly bindPod: BindPod;
  /** Throws the error that the client receives. */
  readonly admit: (admission: Admission) => void;
  /** Plural names of kinds whose cache is empty. */
  readonly forgotten: ReadonlySet<string>;
  readonly behaviour?: ReadBehaviour;
  /** Milliseconds since 1970. */
  now(): number;
}

/** A request for objects, with its path parsed. */
interface ResourceRequest {
  readonly resource: ApiResource;
  readonly path: ResourcePath;
  readonly request: ApiRequest;
}

/** @throws ApiError for every rejected request */
export async function serveResource(ports: ResourcePorts, request: ApiRequest): Promise<ApiResponse> {
  const path = parseResourcePath(request.path);
  const resource = path === undefined ? undefined : ports.registry.find(path.group, path.version, path.plural);
  if (path === undefined || resource === undefined) throw pathNotFound();
  if (path.namespace !== undefined && !resource.namespaced) throw pathNotFound();
  if (resource.namespaced && path.namespace === undefined && path.name !== undefined) throw pathNotFound();
  if (path.subresource !== undefined && !resource.subresources.includes(path.subresource)) throw pathNotFound();
  const target = { resource, path, request };
  switch (request.method) {
    case 'GET':
    case 'HEAD':
      return path.name === undefined || isTrue(request.query.get('watch'))
        ? serveCollection(ports, target)
        : serveGet(ports, target, path.name);
    case 'POST':
      return servePost(ports, target);
    case 'PUT':
      return servePut(ports, target);
    case 'PATCH':
      return servePatch(ports, target);
    case 'DELETE':
      return serveDelete(ports, target);
    default:
      throw methodNotAllowed(resource, request.method);
  }
}

function serveGet(ports: ResourcePorts, { resource, path, request }: ResourceRequest, name: string): ApiResponse {
  const representation = chooseRepresentation(request.accept, request.query);
  return jsonResponse(200, renderNamed(ports, resource, [path.namespace, name], representation));
}

function serveCollection(ports: ResourcePorts, { resource, path, request }: ResourceRequest): ApiResponse {
  const { query } = request;
  const representation = chooseRepresentation(request.accept, query);
  if (path.name !== undefined) query.append('fieldSelector', `metadata.name=${path.name}`);
  const selection = selectionOf(resource, path.namespace, query);
  const { behaviour, store } = ports;
  const cached = { ...ports, store: behaviour?.cache?.viewOf(resource.storage) ?? store, newest: store.revision };
  if (!isTrue(query.get('watch'))) {
    refuseList(behaviour?.list?.(resource.plural));
    const list = listQuery(query);
    return jsonResponse(200, renderPage(list.resourceVersion === '' ? ports : cached, resource, selection, list, representation));
  }
  const watch = watchQuery(query);
  if ((watch.revision ?? 0) > ports.store.revision) throw tooLarge(watch.revision ?? 0, ports.store.revision);
  return {
    contentType: 'application/json',
    stream: (write, signal) => serveWatch(cached, { resource, selection, representation, query: watch }, write, signal),
  };
}

/** @throws ApiError */
function refuseList(incident: 'expired' | 'error' | undefined): void {
  if (incident === 'expired') throw expired('The provided version is too old: start the list again');
  if (incident === 'error') throw new ApiError(500, 'InternalError', 'the list has failed');
}

async function servePost(ports: ResourcePorts, target: ResourceRequest): Promise<ApiResponse> {
  const { resource, path } = target;
  const body = parseBody(target, await target.request.body());
  const { options, warnings } = writeOptions(ports, target);
  if (path.name !== undefined) {
    if (path.subresource === 'binding') return jsonResponse(201, JSON.stringify(ports.bindPod(path.namespace, path.name, body, options)));
    if (path.subresource === 'eviction')
      return jsonResponse(201, JSON.stringify(evictPod(ports.writer, resource, path.namespace, path.name, body, options)));
    throw methodNotAllowed(resource, 'POST');
  }
  return answerObject(ports, target, 201, ports.writer.create(resource, path.namespace, body, options), warnings);
}

async function servePut(ports: ResourcePorts, target: ResourceRequest): Promise<ApiResponse> {
  const { resource, path } = target;
  const body = parseBody(target, await target.request.body());
  const { options, warnings } = writeOptions(ports, target);
  return answerObject(
    ports,
    target,
    200,
    ports.writer.update(resource, keyOfPath(target), () => body, options),
    path.subresource === 'binding' ? [] : warnings,
  );
}

async function servePatch(ports: ResourcePorts, target: ResourceRequest): Promise<ApiResponse> {
  const { resource, path, request } = target;
  const type = request.contentType.split(';', 1)[0]?.trim() ?? '';
  if (!isPatchType(type))
    throw new ApiError(
      415,
      'UnsupportedMediaType',
      `the body of the request was in an unknown format - accepted media types include: ${patchTypes.join(', ')}`,
    );
  if (path.name === undefined) throw methodNotAllowed(resource, 'PATCH');
  const { options, warnings } = writeOptions(ports, target);
  const explicit = request.query.get('fieldManager');
  const text = utf8(await request.body());
  const { fieldManager, ...others } = options;
  const manager = type === 'application/apply-patch+yaml' ? (explicit ?? undefined) : fieldManager;
  const patch = {
    resource,
    namespace: path.namespace,
    name: path.name,
    type,
    text,
    options: manager === undefined ? others : { ...others, fieldManager: manager },
  };
  const { object, created } = patchObject(ports, patch);
  return answerObject(ports, target, created ? 201 : 200, object, warnings);
}

function isPatchType(type: string): type is PatchType {
  return (patchTypes as readonly string[]).includes(type);
}

async function serveDelete(ports: ResourcePorts, target: ResourceRequest): Promise<ApiResponse> {
  const { resource, path, request } = target;
  const bytes = await request.body();
  const body = bytes.length === 0 ? {} : parseBody(target, bytes);
  const { options } = writeOptions(ports, target);
  const deletion = { ...deleteOptions(body, request.query), ...options };
  if (path.name === undefined) return deleteAll(ports, target, deletion);
  const { object, gone } = ports.writer.delete(resource, path.namespace, path.name, deletion);
  if (!gone || resource.kind === 'Pod') return answerObject(ports, target, 200, object, []);
  const details = {
    name: object.metadata.name,
    ...(resource.group === '' ? {} : { group: resource.group }),
    kind: resource.plural,
    uid: object.metadata.uid,
  };
  return jsonResponse(200, JSON.stringify({ kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', details }));
}

function deleteAll(
  ports: ResourcePorts,
  { resource, path, request }: ResourceRequest,
  deletion: DeleteOptions & WriteOptions,
): ApiResponse {
  const selected = entriesOf(ports.store, resource, selectionOf(resource, path.namespace, request.query));
  const deleted = selected.map(
    ({ object }) => ports.writer.delete(resource, object.metadata.namespace, object.metadata.name, deletion).object,
  );
  const list = {
    kind: `${resource.kind}List`,
    apiVersion: deleted[0]?.apiVersion ?? 'v1',
    metadata: { resourceVersion: String(ports.store.revision) },
    items: deleted,
  };
  return jsonResponse(200, JSON.stringify(list));
}

/** Options are in the body, or in the query of requests without one. */
function deleteOptions(body: JsonRecord, query: URLSearchParams): DeleteOptions {
  const grace = query.get('gracePeriodSeconds');
  const policy = query.get('propagationPolicy');
  return {
    ...(grace === null ? {} : { gracePeriodSeconds: Number(grace) }),
    ...(policy === null ? {} : { propagationPolicy: policy }),
    ...(typeof body['gracePeriodSeconds'] === 'number' ? { gracePeriodSeconds: body['gracePeriodSeconds'] } : {}),
    ...(typeof body['propagationPolicy'] === 'string' ? { propagationPolicy: body['propagationPolicy'] } : {}),
    ...(isObject(body['preconditions']) ? { preconditions: body['preconditions'] } : {}),
  };
}

function keyOfPath({ resource, path }: ResourceRequest): string {
  if (path.name === undefined) throw methodNotAllowed(resource, 'PUT');
  return path.namespace === undefined ? path.name : `${path.namespace}/${path.name}`;
}

/** An object as JSON, YAML, or (for the kinds that kubectl's generators make) protobuf. */
function parseBody({ resource, path, request }: ResourceRequest, bytes: Uint8Array): JsonRecord {
  const type = request.contentType.split(';', 1)[0]?.trim() ?? '';
  if (type === protobufType) return decodeProtoBody(bytes, (apiVersion, kind) => protoModel(resource, path, apiVersion, kind));
  if (type !== '' && type !== 'application/json' && type !== 'application/yaml' && type !== '*/*')
    throw new ApiError(
      415,
      'UnsupportedMediaType',
      'the body of the request was in an unknown format - accepted media types include: application/json, application/yaml',
    );
  return parseYamlOrJson(utf8(bytes));
}

const optionModels: Readonly<Record<string, string>> = { DeleteOptions: 'V1DeleteOptions', Eviction: 'V1Eviction', Binding: 'V1Binding' };

function protoModel(resource: ApiResource, { subresource }: ResourcePath, apiVersion: string, kind: string): string | undefined {
  const own = kind === resource.kind && apiVersion === apiVersionOf(resource) ? resource.schema.model : undefined;
  const model = subresource === 'binding' || subresource === 'eviction' || kind === 'DeleteOptions' ? optionModels[kind] : own;
  return model !== undefined && Object.hasOwn(protoFields, model) ? model : undefined;
}

function utf8(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('utf8');
}

const validations: ReadonlySet<string> = new Set(['Strict', 'Warn', 'Ignore']);

/** Options of a write from the query, and the list of its warnings. */
function writeOptions(
  ports: ResourcePorts,
  { resource, path, request }: ResourceRequest,
): { readonly options: WriteOptions; readonly warnings: string[] } {
  const { query } = request;
  const warnings: string[] = [];
  const validation = query.get('fieldValidation') || 'Warn';
  if (!validations.has(validation))
    throw badRequest(`fieldValidation: Unsupported value: "${validation}": supported values: "Ignore", "Warn", "Strict"`);
  const dryRun = query.getAll('dryRun');
  if (dryRun.some((value) => value !== 'All')) throw badRequest(`dryRun: Unsupported value: "${dryRun.join()}": supported values: "All"`);
  const options: WriteOptions = {
    ...(path.subresource === undefined ? {} : { subresource: path.subresource }),
    dryRun: dryRun.length > 0,
    admit: (object, oldObject) => {
      const { subresource } = path;
      ports.admit({ user: request.user, resource, subresource, object, oldObject, dryRun: dryRun.length > 0 });
    },
    fieldManager: query.get('fieldManager') || request.userAgent.split('/', 1)[0] || 'unknown',
    fieldValidation: validation as FieldValidation,
    force: isTrue(query.get('force')),
    warn: (text) => warnings.push(text),
  };
  return { options, warnings };
}

function answerObject(
  ports: ResourcePorts,
  { resource, request }: ResourceRequest,
  code: number,
  stored: ApiObject,
  warnings: readonly string[],
): ApiResponse {
  const representation = chooseRepresentation(request.accept, request.query);
  const entry = new StoredObject(stored, Number(stored.metadata.resourceVersion ?? 0));
  return jsonResponse(code, renderObject(resource, entry, representation, ports.now()), { warnings });
}
