import findMyWay from 'find-my-way';
import { pathNotFound } from '../errors/api-error.ts';
import { type ApiRequest, jsonResponse, type WholeResponse } from '../http/api-request.ts';
import { mediaRanges, notAcceptable } from '../http/media-ranges.ts';
import type { Registry } from '../resource/registry.ts';
import { aggregatedDiscovery, apiGroup, apiGroupList, apiResourceList, apiVersions } from './discovery.ts';
import { serveOpenApi } from './openapi-handler.ts';

/** Kubernetes release of the API schemas. */
const release = { major: '1', minor: '36', gitVersion: 'v1.36.0+seine-lab' };

type ClusterHandler = (registry: Registry, request: ApiRequest, parameters: Readonly<Record<string, string | undefined>>) => WholeResponse;

/** Maximum length of a path parameter, above that of a request line. */
const maxParamLength = 1_000_000;

const paths = ['/api', '/api/v1', '/apis', '/healthz', '/livez', '/openapi/v2', '/openapi/v3', '/readyz', '/version'];

const routes: Readonly<Record<string, ClusterHandler>> = {
  '/': () => jsonResponse(200, JSON.stringify({ paths })),
  '/version': () => jsonResponse(200, versionJson()),
  '/openapi/*': serveOpenApi,
  '/api': (registry, request) => serveRoot(registry, request, 'api'),
  '/apis': (registry, request) => serveRoot(registry, request, 'apis'),
  '/api/:version': (registry, _request, { version = '' }) => found(apiResourceList(registry, '', version)),
  '/apis/:group': (registry, _request, { group = '' }) => found(apiGroup(registry, group)),
  '/apis/:group/:version': (registry, _request, { group = '', version = '' }) => found(apiResourceList(registry, group, version)),
};

const router = findMyWay({ maxParamLength });
for (const [path, handler] of Object.entries(routes)) router.on('GET', path, () => undefined, handler);
for (const path of ['/healthz', '/livez', '/readyz']) {
  const healthy: ClusterHandler = () => ({ code: 200, contentType: 'text/plain; charset=utf-8', body: 'ok' });
  router.on('GET', path, () => undefined, healthy);
  router.on('GET', `${path}/*`, () => undefined, healthy);
}

/** @returns undefined if the path is one of a resource */
export function serveCluster(registry: Registry, request: ApiRequest): WholeResponse | undefined {
  // Names of groups need no escapes: the path is used as is, and an escaped one matches nothing.
  const path = request.path.replace(/\/+$/, '').replaceAll('%', '%25');
  const match = router.find('GET', path || '/');
  if (match === null) return undefined;
  const handler: ClusterHandler = match.store;
  return handler(registry, request, match.params);
}

function versionJson(): string {
  return JSON.stringify({
    ...release,
    gitCommit: '',
    gitTreeState: 'clean',
    buildDate: '2026-01-01T00:00:00Z',
    goVersion: `none, Node ${process.versions.node}`,
    compiler: 'none',
    platform: `linux/${process.arch === 'x64' ? 'amd64' : process.arch}`,
  });
}

/** Serves /api and /apis: aggregated discovery for clients that accept it, otherwise the original form. */
function serveRoot(registry: Registry, { accept }: ApiRequest, root: 'api' | 'apis'): WholeResponse {
  for (const { type, parameters } of mediaRanges(accept)) {
    const as = parameters.get('as');
    if (type !== 'application/json' && type !== '*/*' && type !== '') continue;
    if (as === undefined) return jsonResponse(200, JSON.stringify(root === 'api' ? apiVersions() : apiGroupList(registry)));
    const version = parameters.get('v');
    if (as !== 'APIGroupDiscoveryList' || parameters.get('g') !== 'apidiscovery.k8s.io' || (version !== 'v2' && version !== 'v2beta1'))
      continue;
    const contentType = `application/json;g=apidiscovery.k8s.io;v=${version};as=APIGroupDiscoveryList`;
    return { code: 200, contentType, body: JSON.stringify(aggregatedDiscovery(registry, root, version)) };
  }
  throw notAcceptable();
}

function found(answer: object | undefined): WholeResponse {
  if (answer === undefined) throw pathNotFound();
  return jsonResponse(200, JSON.stringify(answer));
}
