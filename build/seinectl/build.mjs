/**
 * `npm run build:seinectl`: `seinectl` as one file that runs on any node: `dist/static/seinectl`, for this host's architecture or another
 * one, whose libraries and cross compiler are installed.
 *
 * The starter (`starter.c`, statically linked), followed by the pinned Node, the libraries that it and `seinectl` load, and the bundle: the
 * same files as in the agent's image.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import {
  appendFileSync,
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { nodeArchitecture, tripletOf } from '../architecture.mjs';
import { dist, pinnedNodeBin, root } from '../setup/paths.mjs';

const help = `npm run build:seinectl [-- options]: seinectl as one file for nodes without Node

  --out FILE         dist/static/seinectl
  --arch NAME        architecture of the nodes, amd64 or arm64; this host's if absent
  --packages FOLDER  has the native packages of npm for that architecture in node_modules; the checkout if absent
  -h, --help         this text
`;
/** Loaded by name at run time, and by no other library. */
const packetFilter = 'libnftables.so.1';

const said = (command, ...args) => execFileSync(command, args, { encoding: 'utf8' });

/** Libraries that a program or a library loads, by name, and its loader. */
function loadedBy(file) {
  const text = said('readelf', '--wide', '--dynamic', '--program-headers', file);
  const [, loader] = /\[Requesting program interpreter: (\S+)\]/.exec(text) ?? [];
  return { loader, names: Array.from(text.matchAll(/\(NEEDED\)\s+Shared library: \[(\S+)\]/g), ([, name]) => name) };
}

/** Path of a library of Debian's packages for an architecture. @throws Error if it is not installed */
function pathOfLibrary(name, architecture) {
  const path = ['/lib', '/usr/lib'].map((folder) => join(folder, `${tripletOf(architecture)}-gnu`, name)).find((each) => existsSync(each));
  if (path === undefined) throw new Error(`${name} for ${architecture} is not on this machine (Debian: libnftables1, libstdc++6)`);
  return path;
}

/** Paths of all libraries that these files load, directly or through others. The loader is not among them. */
function librariesOf(files, architecture) {
  const found = new Map();
  const pending = [...files];
  for (const file of pending)
    for (const name of loadedBy(file).names) {
      if (found.has(name) || name.startsWith('ld-linux')) continue;
      found.set(name, pathOfLibrary(name, architecture));
      pending.push(found.get(name));
    }
  return [...found.values()];
}

/** Files of a package that Node reads, of which one has sources in C++ too. @param path of the checkout */
function scriptsIn(path) {
  if (!statSync(join(root, path)).isDirectory()) return /\.(c?js|json)$/.test(path) ? [path] : [];
  return readdirSync(join(root, path)).flatMap((name) => scriptsIn(join(path, name)));
}

/** Node of an architecture: the pinned one, or that which runs this program. */
function nodeOf({ architecture, packages }) {
  if (architecture !== process.arch) return join(packages, 'node_modules', `node-linux-${architecture}`, 'bin', 'node');
  return realpathSync(join(existsSync(pinnedNodeBin) ? pinnedNodeBin : dirname(process.execPath), 'node'));
}

/** Every included file, by its path inside. */
function contents(work, { architecture, packages }) {
  const native = `@koromix/koffi-linux-${architecture}`;
  const node = join(work, 'node');
  copyFileSync(nodeOf({ architecture, packages }), node);
  chmodSync(node, 0o755);
  // Names that only a debugger reads: a seventh of the size. Without the tool the file is larger.
  spawnSync(architecture === process.arch ? 'strip' : `${tripletOf(architecture)}-gnu-strip`, ['--strip-unneeded', node]);
  const koffi = join('node_modules', native, `linux_${architecture}`, 'koffi.node');
  const filter = pathOfLibrary(packetFilter, architecture);
  const { loader } = loadedBy(node);
  if (loader === undefined) throw new Error(`${node} names no loader: is it a Node for glibc?`);
  const libraries = librariesOf([node, join(packages, koffi), filter], architecture);
  const ofKoffi = ['package.json', 'index.js', 'index.cjs', 'src/koffi'].flatMap((part) => scriptsIn(join('node_modules', 'koffi', part)));
  const ofNative = ['package.json', 'index.js'].map((part) => join('node_modules', native, part));
  return new Map([
    ['node', node],
    ['ld.so', loader],
    ...[...new Set([...libraries, filter])].toSorted().map((path) => [join('lib', basename(path)), path]),
    ['package.json', join(root, 'package.json')],
    ['LICENSE', join(root, 'LICENSE')],
    ['dist/seinectl.mjs', join(dist, 'seinectl.mjs')],
    ...ofKoffi.map((path) => [path, join(root, path)]),
    ...[...ofNative, koffi].map((path) => [path, join(packages, path)]),
  ]);
}

function foldersOf(paths) {
  const folders = new Set();
  for (const path of paths) for (let up = dirname(path); up !== '.'; up = dirname(up)) folders.add(up);
  return [...folders].toSorted();
}

function build(target, wanted) {
  const work = mkdtempSync(join(tmpdir(), 'seine-seinectl-'));
  try {
    const draft = join(work, 'seinectl');
    const compiler = wanted.architecture === process.arch ? 'cc' : `${tripletOf(wanted.architecture)}-gnu-gcc`;
    execFileSync(
      compiler,
      ['-static', '-Os', '-s', '-Wall', '-Wextra', '-Werror', '-o', draft, join(root, 'build', 'seinectl', 'starter.c')],
      {
        stdio: 'inherit',
      },
    );
    const files = contents(work, wanted);
    const lines = foldersOf(files.keys()).map((folder) => `- - - ${folder}`);
    let at = statSync(draft).size;
    for (const [path, from] of files) {
      const content = readFileSync(from);
      appendFileSync(draft, content);
      lines.push(`${at} ${content.length} ${(statSync(from).mode & 0o100) === 0 ? '600' : '700'} ${path}`);
      at += content.length;
    }
    const index = Buffer.from(`${lines.join('\n')}\n`);
    const trailer = Buffer.alloc(24, 'SEINECTL');
    trailer.writeBigUInt64LE(BigInt(at), 8);
    trailer.writeBigUInt64LE(BigInt(index.length), 16);
    appendFileSync(draft, Buffer.concat([index, trailer]));
    mkdirSync(dirname(target), { recursive: true });
    copyFileSync(draft, `${target}.draft`);
    chmodSync(`${target}.draft`, 0o755);
    renameSync(`${target}.draft`, target);
    console.log(`${target}: ${Math.ceil(statSync(target).size / 2 ** 20)} MiB`);
  } finally {
    rmSync(work, { recursive: true });
  }
}

try {
  const text = { type: 'string' };
  const { values } = parseArgs({ options: { out: text, arch: text, packages: text, help: { type: 'boolean', short: 'h' } } });
  if (values.help) process.stdout.write(help);
  else
    build(resolve(values.out ?? join(dist, 'static', 'seinectl')), {
      architecture: nodeArchitecture(values.arch),
      packages: resolve(values.packages ?? root),
    });
} catch (error) {
  process.stderr.write(`build:seinectl: ${error.message}\n`);
  process.exitCode = error.code?.startsWith('ERR_PARSE_ARGS') ? 2 : 1;
}
