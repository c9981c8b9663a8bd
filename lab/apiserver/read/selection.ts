import { badRequest } from '../errors/api-error.ts';
import type { ApiObject } from '../object/api-object.ts';
import { type LabelMatcher, parseFieldSelector, parseLabelSelector } from '../object/selectors.ts';
import type { ApiResource } from '../resource/resource.ts';

/** Objects of a kind that a request selects. */
export interface ObjectSelection {
  readonly namespace: string | undefined;
  matches(object: ApiObject): boolean;
}

/** @throws ApiError 400 for an invalid selector, or a field the kind cannot be selected by */
export function selectionOf(resource: ApiResource, namespace: string | undefined, query: URLSearchParams): ObjectSelection {
  const labels: LabelMatcher = parseLabelSelector(query.get('labelSelector') ?? '');
  const terms = parseFieldSelector(query.get('fieldSelector') ?? '').map(({ path, value, equal }) => {
    const read = fieldReader(resource, path);
    return (object: ApiObject) => (read(object) === value) === equal;
  });
  return {
    namespace,
    matches: (object) =>
      (namespace === undefined || object.metadata.namespace === namespace) &&
      labels(object.metadata.labels ?? {}) &&
      terms.every((holds) => holds(object)),
  };
}

function fieldReader(resource: ApiResource, path: string): (object: ApiObject) => string {
  if (path === 'metadata.name') return (object) => object.metadata.name;
  if (path === 'metadata.namespace') return (object) => object.metadata.namespace ?? '';
  const read = resource.fields[path];
  if (read === undefined) throw badRequest(`field label not supported: ${path}`);
  const { fromStored } = resource;
  return fromStored === undefined ? read : (object) => read(fromStored(object));
}
