/**
 * Builds the page of `seinectl ui` into `dist/ui`, and the simulator as static files, for any web server, into `dist/simulator`. Both have the
 * worker of the simulator, and a file `shared.js` of what page and worker both use: the parser of YAML.
 */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { licensesOf } from './esbuild/licenses.mjs';
import { parseOnly } from './esbuild/parse-only.mjs';

const root = resolve(import.meta.dirname, '..');
const sources = join(root, 'src/ui/page');
const worker = join(root, 'src/simulate/browser/worker.ts');
const types = {
  'index.html': 'text/html; charset=utf-8',
  'page.js': 'text/javascript; charset=utf-8',
  'page.css': 'text/css; charset=utf-8',
  'shared.js': 'text/javascript; charset=utf-8',
  'simulator-worker.js': 'text/javascript; charset=utf-8',
};

/** @param {string} output folder @param {Record<string, string>} entryPoints @param {string} html document @returns {Promise<string[]>} the bundled sources */
async function bundle(output, entryPoints, html) {
  rmSync(output, { recursive: true, force: true });
  mkdirSync(output, { recursive: true });
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: { ...entryPoints, 'simulator-worker': worker },
    outdir: output,
    bundle: true,
    minify: true,
    splitting: true,
    chunkNames: 'shared',
    format: 'esm',
    platform: 'browser',
    // Browsers with light-dark().
    target: ['chrome123', 'firefox120', 'safari17.5'],
    jsx: 'automatic',
    jsxImportSource: 'preact',
    legalComments: 'none',
    logLevel: 'warning',
    metafile: true,
    plugins: [parseOnly],
  });
  await build({ entryPoints: [join(sources, 'page.css')], outdir: output, minify: true, logLevel: 'warning' });
  writeFileSync(join(output, 'index.html'), readFileSync(join(sources, html)));
  return Object.keys(metafile.inputs);
}

/** @returns {Promise<{ files: [string, { type: string, packed: string }][], inputs: string[] }>} files by path, gzip in Base64, and the bundled sources */
export async function buildPage() {
  const output = join(root, 'dist/ui');
  const inputs = await bundle(output, { page: join(sources, 'main.tsx') }, 'index.html');
  const files = Object.entries(types).map(([name, type]) => [
    name === 'index.html' ? '/' : `/${name}`,
    { type, packed: gzipSync(readFileSync(join(output, name)), { level: 9 }).toString('base64') },
  ]);
  return { files, inputs };
}

/** Writes `dist/simulator`, with the licenses of the packages in it. */
export async function buildSimulator() {
  const output = join(root, 'dist/simulator');
  const inputs = await bundle(output, { simulator: join(sources, 'simulator-main.tsx') }, 'simulator.html');
  writeFileSync(join(output, 'licenses.txt'), licensesOf(root, inputs));
}

/** Puts the files of the page into a bundle, instead of the module that reads them. */
export function withPage({ files }) {
  return {
    name: 'page',
    setup({ onLoad }) {
      onLoad({ filter: /src\/ui\/server\/page-files\.ts$/ }, () => ({
        contents: `import { gunzipSync } from 'node:zlib';
const files = ${JSON.stringify(files)};
export const loadPageFiles = () =>
  new Map(files.map(([path, { type, packed }]) => [path, { type, content: gunzipSync(Buffer.from(packed, 'base64')).toString('utf8') }]));
`,
        loader: 'js',
      }));
    },
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await buildPage();
  await buildSimulator();
}
