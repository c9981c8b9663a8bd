import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { runLogged } from './commands.mjs';
import { dist, pinnedNodeBin, root, toolPath } from './paths.mjs';
import { say } from './progress.mjs';
import { contentHash, isFresh, stamp } from './stamps.mjs';

const lockFile = 'package-lock.json';

/** The build products: the command of each, its inputs, and its files below `dist/`. */
const products = [
  {
    name: 'plugin',
    what: 'the CNI plugin (TypeScript, compiled to a native program)',
    command: ['node', 'build/build-shim.mjs'],
    inputs: ['build/build-shim.mjs', 'src/cni', 'src/cni-shim'],
    makes: ['bin/seine'],
  },
  {
    name: 'bundles',
    what: 'the bundles of agent, seinectl, lab and demo',
    command: ['node', 'build/bundle.mjs'],
    inputs: [
      'build/bundle.mjs',
      'build/esbuild/lazy-builtins.mjs',
      'build/esbuild/lazy-koffi.mjs',
      'build/esbuild/licenses.mjs',
      'build/esbuild/parse-only.mjs',
      'build/esbuild/stub-unused.mjs',
      'build/ui.mjs',
      'src',
      'lab',
    ],
    makes: [
      'seine-agent.mjs',
      'seinectl.mjs',
      'seine-lab.mjs',
      'install-cni.mjs',
      'seinectl-cluster.mjs',
      'seine-demo.mjs',
      'ui/page.js',
      'simulator/index.html',
    ],
  },
  {
    name: 'exports',
    what: 'the libraries seine/ovsdb and seine/openflow',
    command: ['tsc', '-p', 'tsconfig.build.json'],
    inputs: [
      'tsconfig.json',
      'tsconfig.build.json',
      'src/ovsdb/entry.ts',
      'src/openflow/entry.ts',
      'src/ovsdb',
      'src/openflow',
      'src/base/async',
      'src/base/bytes',
      'src/base/net',
      'src/base/errors',
    ],
    makes: ['src/ovsdb/entry.js', 'src/openflow/entry.js'],
  },
  {
    name: 'packages',
    what: 'npm packages of the libraries and of seinectl',
    command: ['node', 'build/packages.mjs'],
    inputs: ['build/packages.mjs', 'build/bundle.mjs', 'build/esbuild', 'build/seinectl/npm', 'package.json', 'LICENSE', 'src'],
    makes: ['packages/ovsdb/package.json', 'packages/openflow/package.json', 'packages/seinectl/package.json'],
  },
];

const hashOf = ({ inputs }) => contentHash([lockFile, ...inputs].map((path) => join(root, path)));

/** Products that are absent, or whose sources changed since they were built. */
export function staleProducts() {
  return products.filter((product) => {
    const files = product.makes.map((file) => join(dist, file));
    return !isFresh(product.name, hashOf(product), files);
  });
}

export async function make(product) {
  // The hash is computed before the build: a source that changes meanwhile makes the next run build again.
  const hash = hashOf(product);
  say(`building ${product.what}`);
  const [command, ...args] = product.command;
  await runLogged(`build-${product.name}`, command, args, {
    cwd: root,
    env: { PATH: toolPath() },
    remedy: 'fix what the compiler reports, and run the command again',
  });
  stamp(product.name, hash);
}

/** The Node that runs everything except the set-up itself. */
export function pinnedNode() {
  const pinned = join(pinnedNodeBin, 'node');
  return existsSync(pinned) ? pinned : process.execPath;
}
