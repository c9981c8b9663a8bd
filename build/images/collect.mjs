/**
 * `collect.mjs FOLDER [--arch NAME] [--packages FOLDER]`: collects the content of the agent's image in a folder that is copied over its root: the bundles, the
 * plugin and those chained after it, the pinned Node, koffi with the one native library of the architecture, and a list of all packages from npm.
 */
import { execFileSync } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { nodeArchitecture } from '../architecture.mjs';

const root = resolve(import.meta.dirname, '..', '..');
const { values, positionals } = parseArgs({ options: { arch: { type: 'string' }, packages: { type: 'string' } }, allowPositionals: true });
const [folder] = positionals;
if (folder === undefined) throw new Error('which folder?');
const architecture = nodeArchitecture(values.arch);
/** Has the native packages of the architecture in `node_modules`. */
const packages = resolve(values.packages ?? root);
const out = resolve(folder);
const home = join(out, 'opt', 'seine');
const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')).packages;
const description = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

/** Packages of which files are copied; everything else of npm is inside the bundles. */
const nodePackage = `node-linux-${architecture}`;
const nativePackage = `@koromix/koffi-linux-${architecture}`;
/** Debian's folder of the chained plugins, and their package; nodes that have their own keep them. */
const debianPlugins = '/usr/lib/cni';
const debianPackage = 'containernetworking-plugins';

/** Excludes C++ sources, which are useless without a compiler. */
const isNoSource = (path) => statSync(path).isDirectory() || /\.(c?js|json|txt)$/.test(path);

function copy(from, to, { mode, filter } = {}) {
  const target = join(home, to);
  cpSync(from, target, { recursive: true, dereference: true, ...(filter && { filter }) });
  if (mode !== undefined) chmodSync(target, mode);
}

function command(name, line, settings = '') {
  const path = join(out, 'usr', 'local', 'bin', name);
  mkdirSync(join(out, 'usr', 'local', 'bin'), { recursive: true });
  writeFileSync(path, `#!/bin/sh\n${settings}exec /opt/seine/bin/node ${line} "$@"\n`);
  chmodSync(path, 0o755);
}

for (const bundle of ['seine-agent.mjs', 'seinectl.mjs', 'install-cni.mjs']) copy(join(root, 'dist', bundle), join('dist', bundle));
copy(join(root, 'package.json'), 'package.json');
copy(join(root, 'LICENSE'), 'LICENSE');
copy(join(packages, 'node_modules', nodePackage, 'bin', 'node'), 'bin/node', { mode: 0o755 });
copy(join(packages, 'node_modules', nativePackage), join('node_modules', nativePackage));
for (const part of ['package.json', 'index.js', 'index.cjs', 'src/koffi', 'LICENSE.txt'])
  copy(join(root, 'node_modules', 'koffi', part), join('node_modules', 'koffi', part), { filter: isNoSource });
copy(join(root, 'dist', 'bin', 'seine'), 'cni/seine', { mode: 0o755 });
for (const plugin of ['portmap', 'bandwidth', 'loopback']) copy(join(debianPlugins, plugin), join('cni', plugin), { mode: 0o755 });

// Node's compile cache is in the agent's state folder: the next start takes half of the CPU time. If that is read-only, nothing is cached.
// Only root may read it, like all files of the agent: node creates its folders before the agent runs.
const compiled = `umask 077\nexport NODE_COMPILE_CACHE="\${NODE_COMPILE_CACHE-/var/lib/seine/compile-cache}"\n`;
const environment = description.config['agent-environment']
  .split(' ')
  .map((each) => each.split('='))
  .map(([name, value]) => `export ${name}="\${${name}-${value}}"\n`);
command('seine-agent', `${description.config['agent-node-flags']} /opt/seine/dist/seine-agent.mjs`, `${compiled}${environment.join('')}`);
command('seinectl', '/opt/seine/dist/seinectl.mjs');
command('install-cni', '/opt/seine/dist/install-cni.mjs');

/** Packages of the lock file that a program of the image can contain: not those of builds and tests only, nor those of the lab only. */
function components() {
  return [...needed()].toSorted().flatMap((path) => {
    const { optional, version, license } = lock[path];
    const name = path.replace(/^.*node_modules\//, '');
    if (optional === true && name !== nodePackage && name !== nativePackage) return [];
    const licenses = license === undefined ? {} : { licenses: [{ license: { name: license } }] };
    return [{ type: 'library', name, version, purl: `pkg:npm/${name.replace('@', '%40')}@${version}`, ...licenses }];
  });
}

/** Paths in the lock file of the product's dependencies and of theirs. */
function needed(from = '', found = new Set()) {
  const { dependencies = {}, optionalDependencies = {} } = lock[from];
  for (const name of Object.keys({ ...dependencies, ...optionalDependencies })) {
    const path = resolved(from, name);
    if (path === undefined || found.has(path)) continue;
    found.add(path);
    needed(path, found);
  }
  return found;
}

/** Resolves a package as Node does: next to the importer, then in each folder above. */
function resolved(from, name) {
  const path = `${from === '' ? '' : `${from}/`}node_modules/${name}`;
  if (path in lock) return path;
  return from === '' ? undefined : resolved(from.replace(/\/?(?:node_modules\/)?(?:@[^/]+\/)?[^/]+$/, ''), name);
}

/** Debian packages of which files are copied: the image does not have the packages. */
function copied() {
  const fields = ['Version', 'Architecture'].map((name) => `\${${name}}`).join(' ');
  const [version, arch] = execFileSync('dpkg-query', ['-W', '-f', fields, debianPackage], { encoding: 'utf8' }).split(' ');
  return { type: 'library', name: debianPackage, version, purl: `pkg:deb/debian/${debianPackage}@${version}?arch=${arch}` };
}

/** Sets the modes that all files and folders have in every image, whatever the checkout's are. */
function settleModes(path) {
  const stat = statSync(path);
  chmodSync(path, stat.isDirectory() || (stat.mode & 0o100) !== 0 ? 0o755 : 0o644);
  if (stat.isDirectory()) for (const name of readdirSync(path)) settleModes(join(path, name));
}

const own = { type: 'application', name: 'seine', version: description.version, purl: `pkg:npm/seine@${description.version}` };
writeFileSync(
  join(home, 'npm-components.json'),
  `[${[own, ...components(), copied()].map((component) => JSON.stringify(component)).join(',\n')}]`,
);
mkdirSync(join(out, 'usr', 'share', 'seine'), { recursive: true });
settleModes(out);
