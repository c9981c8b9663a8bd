/** Builds the page of `seinectl ui`: `dist/ui/index.html`, `page.js`, `page.css`. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = resolve(import.meta.dirname, '..');
const sources = join(root, 'src/ui/page');
const output = join(root, 'dist/ui');
const types = {
  'index.html': 'text/html; charset=utf-8',
  'page.js': 'text/javascript; charset=utf-8',
  'page.css': 'text/css; charset=utf-8',
};

/** @returns {Promise<{ files: [string, { type: string, content: string }][], inputs: string[] }>} files by path, and the bundled sources */
export async function buildPage() {
  mkdirSync(output, { recursive: true });
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: { page: join(sources, 'main.tsx') },
    outdir: output,
    bundle: true,
    minify: true,
    format: 'esm',
    platform: 'browser',
    // Browsers with light-dark().
    target: ['chrome123', 'firefox120', 'safari17.5'],
    jsx: 'automatic',
    jsxImportSource: 'preact',
    legalComments: 'none',
    logLevel: 'warning',
    metafile: true,
  });
  await build({ entryPoints: [join(sources, 'page.css')], outdir: output, minify: true, logLevel: 'warning' });
  writeFileSync(join(output, 'index.html'), readFileSync(join(sources, 'index.html')));
  const files = Object.entries(types).map(([name, type]) => [
    name === 'index.html' ? '/' : `/${name}`,
    { type, content: readFileSync(join(output, name), 'utf8') },
  ]);
  return { files, inputs: Object.keys(metafile.inputs) };
}

/** Puts the files of the page into a bundle, instead of the module that reads them. */
export function withPage({ files }) {
  return {
    name: 'page',
    setup({ onLoad }) {
      onLoad({ filter: /src\/ui\/server\/page-files\.ts$/ }, () => ({
        contents: `const files = new Map(${JSON.stringify(files)});\nexport const loadPageFiles = () => files;\n`,
        loader: 'js',
      }));
    },
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await buildPage();
