import type { ResourceFacts } from '../resource/resource.ts';
import { definitionsOf, type OpenApiOperation, pathsOfResources } from './openapi-schema.ts';

export const title = 'Kubernetes';
export const release = 'v1.36.0';
export const gvkMark = 'x-kubernetes-group-version-kind';
export const refPrefix = '#/definitions/';

/** Swagger 2.0 as JSON. */
export function openApiV2Json(resources: readonly ResourceFacts[]): object {
  const paths = Array.from(pathsOfResources(resources), ([path, operations]) => [path, mapValues(operations, operationJson)] as const);
  return {
    swagger: '2.0',
    info: { title, version: release },
    paths: Object.fromEntries(paths),
    definitions: definitionsOf(resources, refPrefix),
  };
}

function operationJson({ kind, action, parameters }: OpenApiOperation): object {
  return {
    parameters: parameters.map((name) => ({ name, in: 'query', type: 'string', uniqueItems: true })),
    responses: { 200: { description: 'OK' } },
    'x-kubernetes-action': action,
    [gvkMark]: kind,
  };
}

export function mapValues<T, U>(object: Readonly<Partial<Record<string, T>>>, change: (value: T) => U): Record<string, U> {
  return Object.fromEntries(Object.entries(object).flatMap(([key, value]) => (value === undefined ? [] : [[key, change(value)]])));
}
