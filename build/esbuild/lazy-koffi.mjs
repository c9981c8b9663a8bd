/**
 * An `import` of a module outside the bundle is executed before anything in it, also for modules that the program imports dynamically and
 * may never use: most subcommands of seinectl make no system call. A `require` is executed where it stands.
 *
 * An esbuild plugin.
 */
export const nativeWhenUsed = {
  name: 'native-when-used',
  setup(build) {
    build.onResolve({ filter: /^koffi$/ }, ({ kind }) =>
      kind === 'require-call' ? { path: 'koffi', external: true } : { path: 'koffi', namespace: 'native-when-used' },
    );
    build.onLoad({ filter: /./, namespace: 'native-when-used' }, ({ path }) => ({ contents: `module.exports = require('${path}');` }));
  },
};
