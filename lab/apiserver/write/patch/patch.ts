import { applyPatch, type Operation } from 'rfc6902';
import { parseJson, parseYamlOrJson } from '../../body/text-body.ts';
import { ApiError, badRequest, notFound } from '../../errors/api-error.ts';
import { type ApiObject, kubeTime, objectKey } from '../../object/api-object.ts';
import { cloneJson, field, isObject, type JsonRecord, setField } from '../../object/json.ts';
import type { ApiResource } from '../../resource/resource.ts';
import type { Store } from '../../store/store.ts';
import { decodeBody } from '../decode-body.ts';
import type { ObjectWriter } from '../object-writer.ts';
import type { WriteOptions } from '../write-options.ts';
import { applied } from './server-side-apply.ts';
import { strategicMerge } from './strategic-merge.ts';

export const patchTypes = [
  'application/json-patch+json',
  'application/merge-patch+json',
  'application/apply-patch+yaml',
  'application/strategic-merge-patch+json',
] as const;
export type PatchType = (typeof patchTypes)[number];

interface PatchRequest {
  readonly resource: ApiResource;
  readonly namespace: string | undefined;
  readonly name: string;
  readonly type: PatchType;
  readonly text: string;
  readonly options: WriteOptions;
}

interface PatchPorts {
  readonly store: Pick<Store, 'get'>;
  readonly writer: Pick<ObjectWriter, 'create' | 'update'>;
  /** Milliseconds since 1970. */
  now(): number;
}

interface Patched {
  readonly object: ApiObject;
  readonly created: boolean;
}

/** @throws ApiError 400, 404, 409, 415 or 422 */
export function patchObject(ports: PatchPorts, { resource, namespace, name, type, text, options }: PatchRequest): Patched {
  const key = objectKey(namespace, name);
  if (type === 'application/apply-patch+yaml') return applyObject(ports, resource, { namespace, name, text, options });
  const patch = parseJson(text);
  const change = (old: ApiObject): JsonRecord => {
    if (type === 'application/json-patch+json') return jsonPatch(old, patch);
    if (!isObject(patch)) throw badRequest(`cannot decode the patch: an object is wanted`);
    if (type === 'application/merge-patch+json') return mergePatch(old, patch) as JsonRecord;
    if (resource.custom)
      throw new ApiError(
        415,
        'UnsupportedMediaType',
        `the body of the request was in an unknown format - accepted media types include: ${patchTypes.slice(0, 3).join(', ')}`,
      );
    return strategicMerge(old, patch, resource.schema);
  };
  return { object: ports.writer.update(resource, key, change, options), created: false };
}

interface Apply {
  readonly namespace: string | undefined;
  readonly name: string;
  readonly text: string;
  readonly options: WriteOptions;
}

function applyObject({ store, writer, now }: PatchPorts, resource: ApiResource, { namespace, name, text, options }: Apply): Patched {
  if (options.fieldManager === undefined)
    throw badRequest('PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch');
  const config = decodeBody(resource, parseYamlOrJson(text), options);
  if (config.metadata.managedFields !== undefined) throw badRequest('metadata.managedFields must be nil');
  config.metadata.name ||= name;
  const key = objectKey(namespace, name);
  const manager = { manager: options.fieldManager, subresource: options.subresource, time: kubeTime(now()), resource };
  const entry = store.get(resource.storage, key);
  if (entry !== undefined) {
    const conflicts = options.force === true ? 'overrule' : 'respect';
    const change = (old: ApiObject) => applied(old, config, resource.schema, manager, conflicts);
    return { object: writer.update(resource, key, change, options), created: false };
  }
  if (options.subresource !== undefined) throw notFound(resource, name);
  const body = applied(undefined, config, resource.schema, manager, 'overrule');
  return { object: writer.create(resource, namespace, body, options), created: true };
}

/** RFC 7396. Returns a new value. */
export function mergePatch(original: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return cloneJson(patch);
  const result: JsonRecord = isObject(original) ? cloneJson(original) : {};
  for (const [name, change] of Object.entries(patch)) {
    if (change === null) delete result[name];
    else setField(result, name, mergePatch(field(result, name), change));
  }
  return result;
}

/** RFC 6902. */
function jsonPatch(original: ApiObject, patch: unknown): JsonRecord {
  if (!Array.isArray(patch)) throw badRequest('cannot decode the patch: a JSON patch is a list of operations');
  const result = cloneJson<JsonRecord>(original);
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
