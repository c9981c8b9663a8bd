import { readFileSync } from 'node:fs';

/**
 * Modules of `yaml` and `zod` that the simulator's worker never runs: it parses YAML 1.2, and writes neither YAML nor JSON Schema. Together
 * 15 kB of the compressed worker.
 */
const unused = [
  /\/yaml\/browser\/dist\/stringify\/\w+\.js$/,
  /\/yaml\/browser\/dist\/schema\/yaml-1\.1\/(binary|bool|float|int|omap|pairs|schema|set|timestamp)\.js$/,
  /\/zod\/v4\/core\/(to-json-schema|json-schema-processors)\.js$/,
];

/** An esbuild plugin. */
export const parseOnly = {
  name: 'parse-only',
  setup(build) {
    for (const filter of unused)
      build.onLoad({ filter }, ({ path }) => {
        const names = exportsOf(readFileSync(path, 'utf8'));
        return { contents: names.map((name) => `export const ${name} = () => undefined;`).join('\n'), loader: 'js' };
      });
    build.onLoad({ filter: /\/zod\/v4\/locales\/index\.js$/ }, () => ({
      contents: "export { default as en } from './en.js';",
      loader: 'js',
    }));
  },
};

/** @param {string} source of an ES module @returns {readonly string[]} */
function exportsOf(source) {
  const listed = [...source.matchAll(/^export \{([^}]*)\}/gm)].flatMap(([, names = '']) =>
    names.split(',').map((each) => each.trim().split(' as ').at(-1) ?? ''),
  );
  const declared = [...source.matchAll(/^export (?:const|function|class) (\w+)/gm)].map(([, name = '']) => name);
  return [...listed, ...declared].filter((name) => name !== '');
}
