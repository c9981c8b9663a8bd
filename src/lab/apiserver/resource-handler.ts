import { admit } from './admission.ts';
import { ApiError, badRequest, methodNotAllowed, pathNotFound } from './api-error.ts';
import { type Answer, type ApiRequest, jsonAnswer, parseResourcePath, type ResourcePath } from './api-request.ts';
import type { Core, FieldValidation, WriteOptions } from './core.ts';
import { type DeleteOptions, deleteObject } from './deletion.ts';
import { isObject, type JsonObject } from './json.ts';
import type { KubeObject } from './kube-object.ts';
import { type PatchType, parseYamlOrJson, patchObject, patchTypes } from './patch.ts';
import { bindPod, evictPod } from './pod-subresources.ts';
import { decodeProtoBody, protobufType } from './proto-body.ts';
import { protoFields } from './proto-fields.ts';
import { entriesOf, getObject, listQuery, renderGet, renderPage, tooLarge } from './read.ts';
import { chooseRepresentation, renderObject } from './representation.ts';
import { apiVersionOf, type Resource } from './resource.ts';
import { selectionOf } from './selection.ts';
import { Entry } from './store.ts';
import { isTrue, serveWatch, watchQuery } from './watch.ts';
import { createObject, updateObject } from './write.ts';

/** A request for objects, understood as far as the path goes. */
interface Target {
  readonly resource: Resource;
  readonly path: ResourcePath;
  readonly request: ApiRequest;
}

/** @throws ApiError for everything that is refused */
export async function serveResource(core: Core, request: ApiRequest): Promise<Answer> {
  const path = parseResourcePath(request.path);
  const resource = path === undefined ? undefined : core.registry.find(path.group, path.version, path.plural);
  if (path === undefined || resource === undefined) throw pathNotFound();
  if (path.namespace !== undefined && !resource.namespaced) throw pathNotFound();
  if (resource.namespaced && path.namespace === undefined && path.name !== undefined) throw pathNotFound();
  if (path.subresource !== undefined && !resource.subresources.includes(path.subresource)) throw pathNotFound();
  const target = { resource, path, request };
  switch (request.method) {
    case 'GET':
    case 'HEAD':
      return path.name === undefined || isTrue(request.query.get('watch'))
        ? serveCollection(core, target)
        : serveGet(core, target, path.name);
    case 'POST':
      return servePost(core, target);
    case 'PUT':
      return servePut(core, target);
    case 'PATCH':
      return servePatch(core, target);
    case 'DELETE':
      return serveDelete(core, target);
    default:
      throw methodNotAllowed(resource, request.method);
  }
}

function serveGet(core: Core, { resource, path, request }: Target, name: string): Answer {
  const representation = chooseRepresentation(request.accept, request.query);
  return jsonAnswer(200, renderGet(core, resource, getObject(core, resource, path.namespace, name), representation));
}

function serveCollection(core: Core, { resource, path, request }: Target): Answer {
  const { query } = request;
  const representation = chooseRepresentation(request.accept, query);
  if (path.name !== undefined) query.append('fieldSelector', `metadata.name=${path.name}`);
  const selection = selectionOf(resource, path.namespace, query);
  if (!isTrue(query.get('watch'))) return jsonAnswer(200, renderPage(core, resource, selection, listQuery(query), representation));
  const watch = watchQuery(query);
  if ((watch.revision ?? 0) > core.store.revision) throw tooLarge(watch.revision ?? 0, core.store.revision);
  return {
    contentType: 'application/json',
    stream: (write, signal) => serveWatch(core, { resource, selection, representation, query: watch }, write, signal),
  };
}

async function servePost(core: Core, target: Target): Promise<Answer> {
  const { resource, path } = target;
  const body = parseBody(target, await target.request.body());
  const { options, warnings } = writeOptions(core, target);
  if (path.name !== undefined) {
    if (path.subresource === 'binding') return jsonAnswer(201, JSON.stringify(bindPod(core, path.namespace, path.name, body, options)));
    if (path.subresource === 'eviction')
      return jsonAnswer(201, JSON.stringify(evictPod(core, resource, path.namespace, path.name, body, options)));
    throw methodNotAllowed(resource, 'POST');
  }
  return answerObject(core, target, 201, createObject(core, resource, path.namespace, body, options), warnings);
}

async function servePut(core: Core, target: Target): Promise<Answer> {
  const { resource, path } = target;
  const body = parseBody(target, await target.request.body());
  const { options, warnings } = writeOptions(core, target);
  return answerObject(
    core,
    target,
    200,
    updateObject(core, resource, keyOfPath(target), () => body, options),
    path.subresource === 'binding' ? [] : warnings,
  );
}

async function servePatch(core: Core, target: Target): Promise<Answer> {
  const { resource, path, request } = target;
  const type = request.contentType.split(';', 1)[0]?.trim() ?? '';
  if (!isPatchType(type))
    throw new ApiError(
      415,
      'UnsupportedMediaType',
      `the body of the request was in an unknown format - accepted media types include: ${patchTypes.join(', ')}`,
    );
  if (path.name === undefined) throw methodNotAllowed(resource, 'PATCH');
  const { options, warnings } = writeOptions(core, target);
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
  const { object, created } = patchObject(core, patch);
  return answerObject(core, target, created ? 201 : 200, object, warnings);
}

function isPatchType(type: string): type is PatchType {
  return (patchTypes as readonly string[]).includes(type);
}

async function serveDelete(core: Core, target: Target): Promise<Answer> {
  const { resource, path, request } = target;
  const bytes = await request.body();
  const body = bytes.length === 0 ? {} : parseBody(target, bytes);
  const { options } = writeOptions(core, target);
  const wish = { ...deleteOptions(body, request.query), ...options };
  if (path.name === undefined) return deleteAll(core, target, wish);
  const { object, gone } = deleteObject(core, resource, path.namespace, path.name, wish);
  if (!gone || resource.kind === 'Pod') return answerObject(core, target, 200, object, []);
  const details = {
    name: object.metadata.name,
    ...(resource.group === '' ? {} : { group: resource.group }),
    kind: resource.plural,
    uid: object.metadata.uid,
  };
  return jsonAnswer(200, JSON.stringify({ kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', details }));
}

function deleteAll(core: Core, { resource, path, request }: Target, wish: DeleteOptions & WriteOptions): Answer {
  const selected = entriesOf(core, resource, selectionOf(resource, path.namespace, request.query));
  const deleted = selected.map(({ object }) => deleteObject(core, resource, object.metadata.namespace, object.metadata.name, wish).object);
  const list = {
    kind: `${resource.kind}List`,
    apiVersion: deleted[0]?.apiVersion ?? 'v1',
    metadata: { resourceVersion: String(core.store.revision) },
    items: deleted,
  };
  return jsonAnswer(200, JSON.stringify(list));
}

/** Options come in the body, or in the query, where clients without one put them. */
function deleteOptions(body: JsonObject, query: URLSearchParams): DeleteOptions {
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

function keyOfPath({ resource, path }: Target): string {
  if (path.name === undefined) throw methodNotAllowed(resource, 'PUT');
  return path.namespace === undefined ? path.name : `${path.namespace}/${path.name}`;
}

/** An object as JSON, YAML, or (for the kinds that kubectl's generators make) protobuf. */
function parseBody({ resource, path, request }: Target, bytes: Uint8Array): JsonObject {
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

function protoModel(resource: Resource, { subresource }: ResourcePath, apiVersion: string, kind: string): string | undefined {
  const own = kind === resource.kind && apiVersion === apiVersionOf(resource) ? resource.schema.model : undefined;
  const model = subresource === 'binding' || subresource === 'eviction' || kind === 'DeleteOptions' ? optionModels[kind] : own;
  return model !== undefined && Object.hasOwn(protoFields, model) ? model : undefined;
}

function utf8(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('utf8');
}

const validations: ReadonlySet<string> = new Set(['Strict', 'Warn', 'Ignore']);

/** What the query asks of a write, and where its warnings gather. */
function writeOptions(core: Core, { resource, path, request }: Target): { readonly options: WriteOptions; readonly warnings: string[] } {
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
      admit(core, { user: request.user, resource, subresource, object, oldObject, dryRun: dryRun.length > 0 });
    },
    fieldManager: query.get('fieldManager') || request.userAgent.split('/', 1)[0] || 'unknown',
    fieldValidation: validation as FieldValidation,
    force: isTrue(query.get('force')),
    warn: (text) => warnings.push(text),
  };
  return { options, warnings };
}

function answerObject(core: Core, { resource, request }: Target, code: number, stored: KubeObject, warnings: readonly string[]): Answer {
  const representation = chooseRepresentation(request.accept, request.query);
  const entry = new Entry(stored, Number(stored.metadata.resourceVersion ?? 0));
  return jsonAnswer(code, renderObject(resource, entry, representation, core.now()), { warnings });
}
