import { pathNotFound } from './api-error.ts';
import { type ApiRequest, jsonAnswer, type WholeAnswer } from './api-request.ts';
import type { Core } from './core.ts';
import { aggregatedDiscovery, apiGroup, apiGroupList, apiResourceList, apiVersions } from './discovery.ts';
import { serveOpenApi } from './openapi-handler.ts';
import { mediaRanges, notAcceptable } from './representation.ts';

/** The Kubernetes release whose API the schemas are of. */
const release = { major: '1', minor: '36', gitVersion: 'v1.36.0+seine-lab' };

/** Paths that tell nothing worth hiding: anyone may ask. */
export function isPublic(path: string): boolean {
  return /^\/(healthz|livez|readyz)(\/|$)/.test(path) || path === '/version' || path === '/version/';
}

/** @returns undefined if the path is one of a resource */
export function serveCluster(core: Core, request: ApiRequest): WholeAnswer | undefined {
  const path = request.path.replace(/\/+$/, '');
  if (/^\/(healthz|livez|readyz)(\/|$)/.test(path)) return { code: 200, contentType: 'text/plain; charset=utf-8', body: 'ok' };
  if (path === '/version') return jsonAnswer(200, versionJson());
  if (path === '')
    return jsonAnswer(
      200,
      JSON.stringify({ paths: ['/api', '/api/v1', '/apis', '/healthz', '/livez', '/openapi/v2', '/openapi/v3', '/readyz', '/version'] }),
    );
  if (path.startsWith('/openapi/')) return serveOpenApi(core, request);
  if (path === '/api' || path === '/apis') return serveRoot(core, request, path === '/api' ? 'api' : 'apis');
  return serveGroup(core, path);
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

/** /api and /apis: everything at once for clients that ask for it, else what they have always answered. */
function serveRoot(core: Core, { accept }: ApiRequest, root: 'api' | 'apis'): WholeAnswer {
  for (const { type, parameters } of mediaRanges(accept)) {
    const as = parameters.get('as');
    if (type !== 'application/json' && type !== '*/*' && type !== '') continue;
    if (as === undefined) return jsonAnswer(200, JSON.stringify(root === 'api' ? apiVersions() : apiGroupList(core.registry)));
    const version = parameters.get('v');
    if (as !== 'APIGroupDiscoveryList' || parameters.get('g') !== 'apidiscovery.k8s.io' || (version !== 'v2' && version !== 'v2beta1'))
      continue;
    const contentType = `application/json;g=apidiscovery.k8s.io;v=${version};as=APIGroupDiscoveryList`;
    return { code: 200, contentType, body: JSON.stringify(aggregatedDiscovery(core.registry, root, version)) };
  }
  throw notAcceptable();
}

function serveGroup({ registry }: Core, path: string): WholeAnswer | undefined {
  const [, root, ...names] = path.split('/');
  if (root === 'api' && names.length === 1) return found(apiResourceList(registry, '', names[0] ?? ''));
  if (root === 'apis' && names.length === 1) return found(apiGroup(registry, names[0] ?? ''));
  if (root === 'apis' && names.length === 2) return found(apiResourceList(registry, names[0] ?? '', names[1] ?? ''));
  return undefined;
}

function found(answer: object | undefined): WholeAnswer {
  if (answer === undefined) throw pathNotFound();
  return jsonAnswer(200, JSON.stringify(answer));
}
