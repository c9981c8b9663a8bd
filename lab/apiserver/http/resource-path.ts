import findMyWay from 'find-my-way';

/** Objects named by a path. */
export interface ResourcePath {
  readonly group: string;
  readonly version: string;
  readonly namespace: string | undefined;
  readonly plural: string;
  readonly name: string | undefined;
  readonly subresource: string | undefined;
}

/** Source: Kubernetes API concepts, resource URIs. A literal segment takes precedence over a parameter. */
const collections = [':plural', 'namespaces/:namespace/:plural'];
const namespaceSubresources = ['status', 'finalize'];
/** Maximum length of a path parameter, above that of a request line. */
const maxParamLength = 1_000_000;

const router = findMyWay({ maxParamLength });
for (const prefix of ['/api/:version', '/apis/:group/:version']) {
  for (const collection of collections)
    for (const rest of ['', '/:name', '/:name/:subresource']) router.on('GET', `${prefix}/${collection}${rest}`, () => undefined);
  for (const subresource of namespaceSubresources)
    router.on('GET', `${prefix}/namespaces/:name/${subresource}`, () => undefined, { plural: 'namespaces', subresource });
}

/** @returns undefined for a path that names no resource */
export function parseResourcePath(path: string): ResourcePath | undefined {
  const trimmed = path.replace(/^\/+|\/+$/g, '');
  if (trimmed.includes('//')) return undefined;
  const found = router.find('GET', `/${trimmed}`);
  if (found === null) return undefined;
  const parameters: Readonly<Record<string, string | undefined>> = { ...found.params, ...found.store };
  const { group = '', version = '', namespace, plural = '', name, subresource } = parameters;
  return { group, version, namespace, plural, name, subresource };
}
