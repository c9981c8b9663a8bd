/**
 * Bundles each program into one file: `dist/seine-agent.mjs`, `dist/seinectl.mjs`, `dist/seine-lab.mjs`, and so on.
 *
 * One file starts faster and needs less memory than its packages: unused code is removed. koffi stays outside, because it loads a native
 * library from its own folder, and is loaded when its first user is.
 */
import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { build } from 'esbuild';
import { builtinsAsAsked } from './esbuild/lazy-builtins.mjs';
import { nativeWhenUsed } from './esbuild/lazy-koffi.mjs';
import { licensesOf } from './esbuild/licenses.mjs';
import { withoutUnusedClients } from './esbuild/stub-unused.mjs';
import { buildPage, buildSimulator, withPage } from './ui.mjs';

const root = resolve(import.meta.dirname, '..');

const programs = {
  'seine-agent': 'src/agent/main.ts',
  seinectl: 'src/seinectl/main.ts',
  'seine-lab': 'lab/main.ts',
  'install-cni': 'src/install/main.ts',
  // Bundle of the npm package, for hosts that are not nodes; the package contains the licenses of its code.
  'seinectl-cluster': 'src/seinectl/cluster/main.ts',
  // Bundle of the demo, for the emulated host: reading and compiling sources there is ten times slower.
  'seine-demo': 'lab/demo.ts',
};

/** CommonJS packages inside an ES module bundle still call `require` for Node's own modules. */
const banner = "import { createRequire as seineCreateRequire } from 'node:module'; const require = seineCreateRequire(import.meta.url);";

/** Renamed into place when complete: a program that starts meanwhile reads the old bundle or the new one. */
async function bundle(name, entry, page) {
  const fresh = join(root, 'dist', `.${name}.${process.pid}.mjs`);
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: [entry],
    outfile: fresh,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node22.18',
    plugins: [withPage(page), builtinsAsAsked, nativeWhenUsed, withoutUnusedClients],
    banner: { js: banner },
    // Minifies whitespace and syntax, not names: stack traces stay readable, and Node keeps less source text in memory.
    minifyWhitespace: true,
    minifySyntax: true,
    keepNames: false,
    legalComments: 'none',
    logLevel: 'warning',
    metafile: true,
  });
  renameSync(fresh, join(root, 'dist', `${name}.mjs`));
  const [{ inputs }] = Object.values(metafile.outputs);
  if (name === 'seinectl-cluster')
    writeFileSync(join(root, 'dist', `${name}.licenses.txt`), licensesOf(root, [...Object.keys(inputs), ...page.inputs]));
  report(name, metafile);
}

function report(name, metafile) {
  const [output] = Object.values(metafile.outputs);
  const largest = Object.entries(sizeByPackage(output.inputs))
    .sort(([, a], [, b]) => b - a)
    .slice(0, 6)
    .map(([from, bytes]) => `${from} ${kib(bytes)}`);
  console.log(`${name}: ${kib(output.bytes)} (${largest.join(', ')})`);
}

function sizeByPackage(inputs) {
  const sizes = {};
  for (const [path, { bytesInOutput }] of Object.entries(inputs)) {
    const [, from = path.split('/').slice(0, 2).join('/')] = /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path) ?? [];
    sizes[from] = (sizes[from] ?? 0) + bytesInOutput;
  }
  return sizes;
}

const kib = (bytes) => `${Math.ceil(bytes / 1024)} KiB`;

mkdirSync(join(root, 'dist'), { recursive: true });
try {
  const page = await buildPage();
  await buildSimulator();
  for (const [name, entry] of Object.entries(programs)) await bundle(name, entry, page);
} catch (error) {
  // esbuild has printed each error with its place; anything else is a bug of this script.
  if (!(error instanceof Error && 'errors' in error)) throw error;
  process.exitCode = 1;
}
