import { type ApiError, badRequest, invalid } from '../errors/api-error.ts';
import type { ApiObject } from '../object/api-object.ts';
import { cloneJson, isObject, type JsonRecord, textAt } from '../object/json.ts';
import { apiVersionOf, type ResourceFacts } from '../resource/resource.ts';
import { decodeInPlace, type Misfit } from '../schema/decode.ts';
import type { WriteOptions } from './write-options.ts';

/**
 * A request's object as one of the resource's kind: a copy that fits its schema, with kind and apiVersion filled in. It is a copy because
 * later steps fill it in further, and callers in this process may share objects with it.
 *
 * @throws ApiError 400 if it is of another kind, has values of a wrong type, or (with Strict) unknown fields
 */
export function decodeBody(resource: ResourceFacts, given: JsonRecord, options: WriteOptions): ApiObject {
  const body = cloneJson(given);
  const apiVersion = apiVersionOf(resource);
  body['apiVersion'] ??= apiVersion;
  body['kind'] ??= resource.kind;
  if (body['apiVersion'] !== apiVersion)
    throw badRequest(`the API version in the data (${String(body['apiVersion'])}) does not match the expected API version (${apiVersion})`);
  if (body['kind'] !== resource.kind)
    throw badRequest(`${String(body['kind'])} in version ${JSON.stringify(apiVersion)} cannot be handled as a ${resource.kind}`);
  if (body['metadata'] === undefined || body['metadata'] === null) body['metadata'] = {};
  const { unknown, wrongType } = decodeInPlace(body, resource.schema);
  const where = `${resource.kind} in version "${resource.version}" cannot be handled as a ${resource.kind}`;
  if (wrongType !== undefined) throw resource.custom ? invalidType(resource, body, wrongType) : badRequest(`${where}: ${wrongType.text}`);
  const complaints = unknown.map((path) => `unknown field "${path}"`);
  if (complaints.length > 0 && options.fieldValidation === 'Strict')
    throw badRequest(`${where}: strict decoding error: ${complaints.join(', ')}`);
  if (options.fieldValidation !== 'Ignore') for (const complaint of complaints) options.warn?.(complaint);
  return shaped(body);
}

/** Custom resources are checked against their schema, not decoded into structs; the error text differs accordingly. */
function invalidType(resource: ResourceFacts, body: JsonRecord, { path, got, wanted }: Misfit): ApiError {
  const message = `Invalid value: "${got}": ${path} in body must be of type ${wanted}: "${got}"`;
  return invalid(resource, textAt(body, 'metadata', 'name'), [{ reason: 'FieldValueTypeInvalid', message, field: path }]);
}

/** After decoding, metadata is an object and its fields have their types; the caller fills in missing ones. */
function shaped(body: JsonRecord): ApiObject {
  const { metadata } = body;
  if (!isObject(metadata)) throw badRequest('metadata must be an object');
  metadata['name'] ??= '';
  return body as JsonRecord & ApiObject;
}
