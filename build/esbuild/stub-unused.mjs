/**
 * Imports of `KubeConfig` of @kubernetes/client-node for features that we never use: its own HTTP clients, proxies, the classes of every
 * API, and OpenID Connect. Together 17 MB of memory in each agent. src/kubernetes/client/config.ts rejects configurations that require
 * them, before they are used.
 */
const unused = ['undici', 'socks', 'socks-proxy-agent', 'hpagent', 'openid-client', './gen/index.js', './middleware.js'];

const importers = /\/@kubernetes\/client-node\/dist\/(config|oidc_auth)\.js$/;

/** Imports for exemplars of prom-client's own metrics, which are off: 43 kB, executed at each start. */
const unusedTracing = { path: '@opentelemetry/api', importer: /\/prom-client\/lib\/metrics\/processCpuTotal\.js$/ };

/** Module whose exports can be named and imported, and throw when they are constructed. */
const standIn = (name) => `
  class NotBundled { constructor() { throw new Error(${JSON.stringify(`${name} is not part of this program`)}); } }
  module.exports = new Proxy({}, { get: (_, key) => (key === '__esModule' ? true : NotBundled) });
`;

/** An esbuild plugin. */
export const withoutUnusedClients = {
  name: 'without-unused-clients',
  setup(build) {
    build.onResolve({ filter: /./ }, ({ path, importer }) =>
      (importers.test(importer) && unused.includes(path)) || (path === unusedTracing.path && unusedTracing.importer.test(importer))
        ? { path, namespace: 'unused-client' }
        : undefined,
    );
    build.onLoad({ filter: /\/zod\/v4\/locales\/index\.js$/ }, () => ({
      contents: "export { default as en } from './en.js';",
      loader: 'js',
    }));
    build.onLoad({ filter: /./, namespace: 'unused-client' }, ({ path }) => ({ contents: standIn(path), loader: 'js' }));
  },
};
