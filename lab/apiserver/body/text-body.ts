import { parse as parseYaml } from 'yaml';
import { badRequest } from '../errors/api-error.ts';
import { isObject, type JsonRecord } from '../object/json.ts';

/** @throws ApiError 400 */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw badRequest(`couldn't get version/kind; json parse error: ${cause instanceof Error ? cause.message : String(cause)}`);
  }
}

/**
 * Parses JSON or YAML. JSON is also YAML; the faster parser is tried first. Text that begins like JSON and is not JSON may be YAML in flow
 * form.
 */
export function parseYamlOrJson(text: string): JsonRecord {
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
