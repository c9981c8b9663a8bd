import { builtinModules } from 'node:module';

/** Packages that use `assert` only as a function, and in rare cases: to load it opens standard error and loads all kinds of streams. */
const callsAssertOnly = /\/node_modules\/(sonic-boom|thread-stream)\/index\.js$/;

/**
 * An `import` of a module of Node evaluates all its exports, to bind their names, and some of them are created at the first read:
 * `node:http` brings an HTTP client, WebSocket and EventSource, which our programs do not use. The result of `process.getBuiltinModule` is
 * evaluated where it is used.
 *
 * An esbuild plugin.
 */
export const builtinsAsAsked = {
  name: 'builtins-as-asked',
  setup(build) {
    build.onResolve({ filter: /^node:/ }, ({ path, kind }) =>
      kind === 'import-statement' && builtinModules.includes(path.slice('node:'.length)) ? { path, namespace: 'builtin' } : undefined,
    );
    build.onResolve({ filter: /^assert$/ }, ({ path, kind, importer }) =>
      kind === 'require-call' && callsAssertOnly.test(importer) ? { path, namespace: 'lazy-assert' } : undefined,
    );
    build.onLoad({ filter: /./, namespace: 'lazy-assert' }, () => ({
      contents: "module.exports = (...given) => process.getBuiltinModule('node:assert')(...given);",
      loader: 'js',
    }));
    build.onLoad({ filter: /./, namespace: 'builtin' }, async ({ path }) => ({ contents: await exportsOf(path), loader: 'js' }));
  },
};

/** A call that is marked pure and whose result is unused is removed, so its exports are never evaluated. */
async function exportsOf(path) {
  const names = Object.keys(await import(path)).filter((name) => /^[a-z_$][\w$]*$/i.test(name) && name !== 'default');
  return [
    `const all = /* @__PURE__ */ process.getBuiltinModule(${JSON.stringify(path)});`,
    'export default all;',
    ...names.map((name) => `const own_${name} = /* @__PURE__ */ (() => all.${name})(); export { own_${name} as ${name} };`),
  ].join('\n');
}
