import { applyPatch, type Operation } from 'rfc6902';
import { parse as parseYaml } from 'yaml';
import { ApiError, badRequest, notFound } from './api-error.ts';
import type { Core, WriteOptions } from './core.ts';
import { decodeBody } from './decode-body.ts';
import { cloneJson, field, isObject, type JsonObject, setField } from './json.ts';
import { type KubeObject, kubeTime, objectKey } from './kube-object.ts';
import type { Resource } from './resource.ts';
import { applied } from './server-side-apply.ts';
import { strategicMerge } from './strategic-merge.ts';
import { createDecoded, updateObject } from './write.ts';

export const patchTypes = [
  'application/json-patch+json',
  'application/merge-patch+json',
  'application/apply-patch+yaml',
  'application/strategic-merge-patch+json',
] as const;
export type PatchType = (typeof patchTypes)[number];

export interface PatchRequest {
  readonly resource: Resource;
  readonly namespace: string | undefined;
  readonly name: string;
  readonly type: PatchType;
  readonly text: string;
  readonly options: WriteOptions;
}

/** @throws ApiError 400, 404, 409, 415 or 422 */
export function patchObject(
  core: Core,
  { resource, namespace, name, type, text, options }: PatchRequest,
): { readonly object: KubeObject; readonly created: boolean } {
  const key = objectKey(namespace, name);
  if (type === 'application/apply-patch+yaml') return applyObject(core, resource, { namespace, name, text, options });
  const patch = parseJson(text);
  const change = (old: KubeObject): JsonObject => {
    if (type === 'application/json-patch+json') return jsonPatch(old, patch);
    if (!isObject(patch)) throw badRequest(`cannot decode the patch: an object is wanted`);
    if (type === 'application/merge-patch+json') return mergePatch(old, patch) as JsonObject;
    if (resource.custom)
      throw new ApiError(
        415,
        'UnsupportedMediaType',
        `the body of the request was in an unknown format - accepted media types include: ${patchTypes.slice(0, 3).join(', ')}`,
      );
    return strategicMerge(old, patch, resource.schema);
  };
  return { object: updateObject(core, resource, key, change, options), created: false };
}

interface Apply {
  readonly namespace: string | undefined;
  readonly name: string;
  readonly text: string;
  readonly options: WriteOptions;
}

function applyObject(
  core: Core,
  resource: Resource,
  { namespace, name, text, options }: Apply,
): { readonly object: KubeObject; readonly created: boolean } {
  if (options.fieldManager === undefined)
    throw badRequest('PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch');
  const body = parseYamlOrJson(text);
  const config = decodeBody(resource, body, options);
  if (config.metadata.managedFields !== undefined) throw badRequest('metadata.managedFields must be nil');
  config.metadata.name ||= name;
  const key = objectKey(namespace, name);
  const writer = { manager: options.fieldManager, subresource: options.subresource, time: kubeTime(core.now()), resource };
  const entry = core.store.get(resource.storage, key);
  if (entry !== undefined) {
    const rivals = options.force === true ? 'overrule' : 'respect';
    return {
      object: updateObject(core, resource, key, (old) => applied(old, config, resource.schema, writer, rivals), options),
      created: false,
    };
  }
  if (options.subresource !== undefined) throw notFound(resource, name);
  const draft = decodeBody(resource, applied(undefined, config, resource.schema, writer, 'overrule'), options);
  return { object: createDecoded(core, resource, namespace, draft, options), created: true };
}

/** RFC 7396. A new value. */
export function mergePatch(original: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return cloneJson(patch);
  const result: JsonObject = isObject(original) ? cloneJson(original) : {};
  for (const [name, change] of Object.entries(patch)) {
    if (change === null) delete result[name];
    else setField(result, name, mergePatch(field(result, name), change));
  }
  return result;
}

/** RFC 6902. */
function jsonPatch(original: KubeObject, patch: unknown): JsonObject {
  if (!Array.isArray(patch)) throw badRequest('cannot decode the patch: a JSON patch is a list of operations');
  const result = cloneJson<JsonObject>(original);
  for (const operation of patch as readonly Operation[]) {
    if (!isObject(operation) || typeof operation.path !== 'string')
      throw badRequest('cannot decode the patch: every operation has an op and a path');
    const [problem] = applyPatch(result, [operation]);
    if (problem !== null && problem !== undefined)
      throw new ApiError(
        422,
        'Invalid',
        `the server rejected our request due to an error in our request: ${operation.op} operation does not apply: ${operation.path}: ${problem.message}`,
      );
  }
  return result;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw badRequest(`couldn't get version/kind; json parse error: ${cause instanceof Error ? cause.message : String(cause)}`);
  }
}

/** Clients send JSON as YAML, which it is; the fast parser goes first. What begins like JSON and is none may be YAML's flow form. */
export function parseYamlOrJson(text: string): JsonObject {
  const value = /^\s*\{\s*["}]/.test(text) ? parseJson(text) : yamlValue(text);
  if (!isObject(value)) throw badRequest('the body of the request is no object');
  return value;
}

function yamlValue(text: string): unknown {
  try {
    return parseYaml(text, { maxAliasCount: 100 });
  } catch (cause) {
    throw badRequest(`error decoding YAML: ${cause instanceof Error ? cause.message : String(cause)}`);
  }
}
