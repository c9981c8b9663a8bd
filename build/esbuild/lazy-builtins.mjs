import { builtinModules } from 'node:module';

/**
 * An `import` of one of Node's own modules reads all that the module exports, to have it under its names, and some of that is made when it is first read: with
 * `node:http` come an HTTP client, WebSocket and EventSource, which no program of ours uses. What `process.getBuiltinModule` gives is read where it is used.
 *
 * An esbuild plugin.
 */
export const builtinsAsAsked = {
  name: 'builtins-as-asked',
  setup(build) {
    build.onResolve({ filter: /^node:/ }, ({ path, kind }) =>
      kind === 'import-statement' && builtinModules.includes(path.slice('node:'.length)) ? { path, namespace: 'builtin' } : undefined,
    );
    build.onLoad({ filter: /./, namespace: 'builtin' }, async ({ path }) => ({ contents: await exportsOf(path), loader: 'js' }));
  },
};

/** Where the result of a call that is marked pure is not used, nothing is left of it: what it would have read is not read. */
async function exportsOf(path) {
  const names = Object.keys(await import(path)).filter((name) => /^[a-z_$][\w$]*$/i.test(name) && name !== 'default');
  return [
    `const all = /* @__PURE__ */ process.getBuiltinModule(${JSON.stringify(path)});`,
    'export default all;',
    ...names.map((name) => `const own_${name} = /* @__PURE__ */ (() => all.${name})(); export { own_${name} as ${name} };`),
  ].join('\n');
}
