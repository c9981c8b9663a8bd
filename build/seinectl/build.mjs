/**
 * `npm run build:seinectl`: `seinectl` as one file that runs on any node: `dist/static/seinectl`, for this host's architecture.
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
import { dist, pinnedNodeBin, root } from '../setup/paths.mjs';

const help = `npm run build:seinectl [-- --out FILE]: seinectl as one file for nodes without Node (dist/static/seinectl)
`;
const native = `@koromix/koffi-linux-${process.arch}`;
/** Loaded by name at run time, and by no other library. */
const packetFilter = 'libnftables.so.1';

const said = (command, ...args) => execFileSync(command, args, { encoding: 'utf8' });

/** Libraries that a program or a library loads. @returns {{ loader?: string, libraries: string[] }} */
function loadedBy(file) {
  const lines = said('ldd', file).split('\n');
  const loader = lines.map((line) => /^\s*(?:\S+ => )?(\/\S*\/ld-linux\S*) \(/.exec(line)?.[1]).find((path) => path !== undefined);
  return { loader, libraries: lines.flatMap((line) => / => (\/\S+) \(/.exec(line)?.[1] ?? []) };
}

function pathOfLibrary(name) {
  const [, path] = new RegExp(`^\\s*${name.replaceAll('.', '\\.')} .*=> (/\\S+)$`, 'm').exec(said('ldconfig', '-p')) ?? [];
  if (path === undefined) throw new Error(`${name} is not on this machine (Debian: libnftables1)`);
  return path;
}

/** Files of a package that Node reads, of which one has sources in C++ too. @param path of the checkout */
function scriptsIn(path) {
  if (!statSync(join(root, path)).isDirectory()) return /\.(c?js|json)$/.test(path) ? [path] : [];
  return readdirSync(join(root, path)).flatMap((name) => scriptsIn(join(path, name)));
}

/** Every included file, by its path inside. */
function contents(work) {
  const node = join(work, 'node');
  copyFileSync(realpathSync(join(existsSync(pinnedNodeBin) ? pinnedNodeBin : dirname(process.execPath), 'node')), node);
  chmodSync(node, 0o755);
  // Names that only a debugger reads: a seventh of the size. Without the tool the file is larger.
  spawnSync('strip', ['--strip-unneeded', node]);
  const koffi = join('node_modules', native, `linux_${process.arch}`, 'koffi.node');
  const filter = pathOfLibrary(packetFilter);
  const { loader } = loadedBy(node);
  if (loader === undefined) throw new Error(`${node} names no loader: is it a Node for glibc?`);
  const libraries = [node, join(root, koffi), filter]
    .flatMap((file) => loadedBy(file).libraries)
    .filter((path) => !basename(path).startsWith('ld-linux'));
  const ofKoffi = ['package.json', 'index.js', 'index.cjs', 'src/koffi'].flatMap((part) => scriptsIn(join('node_modules', 'koffi', part)));
  const ofNative = ['package.json', 'index.js'].map((part) => join('node_modules', native, part));
  return new Map([
    ['node', node],
    ['ld.so', loader],
    ...[...new Set([...libraries, filter])].toSorted().map((path) => [join('lib', basename(path)), path]),
    ['package.json', join(root, 'package.json')],
    ['LICENSE', join(root, 'LICENSE')],
    ['dist/seinectl.mjs', join(dist, 'seinectl.mjs')],
    ...[...ofKoffi, ...ofNative, koffi].map((path) => [path, join(root, path)]),
  ]);
}

function foldersOf(paths) {
  const folders = new Set();
  for (const path of paths) for (let up = dirname(path); up !== '.'; up = dirname(up)) folders.add(up);
  return [...folders].toSorted();
}

function build(target) {
  const work = mkdtempSync(join(tmpdir(), 'seine-seinectl-'));
  try {
    const draft = join(work, 'seinectl');
    execFileSync('cc', ['-static', '-Os', '-s', '-Wall', '-Wextra', '-Werror', '-o', draft, join(root, 'build', 'seinectl', 'starter.c')], {
      stdio: 'inherit',
    });
    const files = contents(work);
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
  const { values } = parseArgs({ options: { out: { type: 'string' }, help: { type: 'boolean', short: 'h' } } });
  if (values.help) process.stdout.write(help);
  else build(resolve(values.out ?? join(dist, 'static', 'seinectl')));
} catch (error) {
  process.stderr.write(`build:seinectl: ${error.message}\n`);
  process.exitCode = error.code?.startsWith('ERR_PARSE_ARGS') ? 2 : 1;
}
