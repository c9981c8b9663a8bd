/**
 * Builds the CNI plugin: `dist/bin/seine`, a static native program, and `dist/bin/seine-node.mjs`, the same for Node.
 *
 * TypeScript → one script (esbuild) → QuickJS bytecode as a C array (qjsc) → linked with host.c, probe.c, join.c and the engine. The engine's
 * source comes with the npm package `qjsc`. Without a C compiler `dist/bin/seine` is a small script that starts the one for Node. Does
 * nothing if no input has changed since the last time. Runs on any Node from 18 on.
 *
 * `--arch NAME` compiles the program for another architecture (amd64, arm64) with Debian's cross compiler and its musl (`musl-dev:NAME`).
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { nodeArchitecture, tripletOf } from './architecture.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const engine = join(root, 'node_modules/qjsc/deps/quickjs_2021_03_27');
const cache = join(root, '.cache/shim');
const output = join(root, 'dist/bin');
const nativeProgram = join(output, 'seine');
const nodeProgram = join(output, 'seine-node.mjs');

const engineFlags = ['-O2', '-w', '-D_GNU_SOURCE', '-DCONFIG_VERSION="2021-03-27"', '-ffunction-sections', '-fdata-sections'];
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const hostFlags = [
  `-DSEINE_VERSION="${version}"`,
  '-Os',
  '-Wall',
  '-Wextra',
  '-Wno-unused-parameter',
  '-fstack-protector-strong',
  '-D_FORTIFY_SOURCE=2',
];
const engineSources = ['quickjs.c', 'libregexp.c', 'libunicode.c', 'cutils.c'];
const programSources = ['host.c', 'probe.c', 'join.c'].map((name) => join(root, 'src/cni-shim', name));
const compilerSources = ['quickjs-libc.c', 'qjsc.c'];

/**
 * @param native whether a C compiler may be used
 * @param architecture Node's name; this host's if absent
 * @returns {Promise<'unchanged' | 'native' | 'node'>} kind of the built plugin
 */
export async function buildShim({
  force = false,
  native = true,
  architecture = process.arch,
  log = (/** @type {string} */ _line) => {},
} = {}) {
  const compiler = native ? findCompiler() : undefined;
  const linker = compiler === undefined ? undefined : linkerFor(architecture, compiler);
  const stampFile = join(cache, 'stamp');
  const stamp = stampOf(compiler, linker);
  const built = existsSync(nativeProgram) && existsSync(nodeProgram);
  if (!force && built && existsSync(stampFile) && readFileSync(stampFile, 'utf8') === stamp) return 'unchanged';
  mkdirSync(cache, { recursive: true });
  mkdirSync(output, { recursive: true });
  const work = mkdtempSync(join(cache, 'work-'));
  try {
    await bundleForNode(work);
    if (compiler === undefined) installStarter(work);
    else await buildNative({ compiler, linker, isForeign: architecture !== process.arch }, work, log);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
  writeFileSync(stampFile, stamp);
  return compiler === undefined ? 'node' : 'native';
}

/** Changes when any input does: our sources, this script, the engine's version, the compiler, Node for the fallback. */
function stampOf(compiler, linker) {
  const hash = createHash('sha256');
  for (const folder of ['src/cni', 'src/cni-shim']) {
    const files = readdirSync(join(root, folder)).filter((name) => /\.(ts|c|h)$/.test(name) && !name.endsWith('.test.ts'));
    for (const name of files.sort()) hash.update(name).update(readFileSync(join(root, folder, name)));
  }
  hash
    .update(version)
    .update(readFileSync(fileURLToPath(import.meta.url)))
    .update(readFileSync(join(root, 'node_modules/qjsc/package.json')));
  const translators = compiler === undefined ? process.execPath : versionOf(compiler) + versionOf(linker);
  return `${hash.update(translators).digest('hex')}\n`;
}

function findCompiler() {
  return ['cc', 'gcc', 'clang'].find((name) => spawnSync(name, ['--version'], { stdio: 'ignore' }).status === 0);
}

/**
 * Compiler of the plugin itself. glibc executes CPUID about thirty times before a static program's first line, and each one exits to the
 * hypervisor: a third of the time of a call of the plugin. musl does not.
 */
function staticCompilerBeside(compiler) {
  return spawnSync('musl-gcc', ['--version'], { stdio: 'ignore' }).status === 0 ? 'musl-gcc' : compiler;
}

/** Compiler of the plugin for an architecture. @throws Error with the remedy if there is none for another one than this host's */
function linkerFor(architecture, compiler) {
  if (architecture === process.arch) return staticCompilerBeside(compiler);
  const name = `${tripletOf(architecture)}-musl-gcc`;
  if (spawnSync(name, ['--version'], { stdio: 'ignore' }).status !== 0)
    throw new Error(`${name} does not run: install the cross compiler and the musl of that architecture (build/images/compilers)`);
  return name;
}

function versionOf(compiler) {
  return `${compiler}: ${execFileSync(compiler, ['--version'], { encoding: 'utf8' })}`;
}

async function bundle(options) {
  const esbuild = await import('esbuild');
  await esbuild.build({ bundle: true, logLevel: 'warning', absWorkingDir: root, ...options });
}

async function bundleForNode(work) {
  const outfile = join(work, 'seine-node.mjs');
  await bundle({
    entryPoints: ['src/cni-shim/node-main.ts'],
    outfile,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    banner: { js: '#!/usr/bin/env node' },
  });
  chmodSync(outfile, 0o755);
  renameSync(outfile, nodeProgram);
}

/** Installs the starter for a host without a C compiler. */
function installStarter(work) {
  const starter = join(work, 'seine');
  const here = '$(dirname "$(readlink -f "$0")")';
  writeFileSync(starter, `#!/bin/sh\nexec '${process.execPath.replaceAll("'", "'\\''")}' "${here}/seine-node.mjs" "$@"\n`, { mode: 0o755 });
  renameSync(starter, nativeProgram);
}

async function buildNative({ compiler, linker, isForeign }, work, log) {
  const objects = compileEngine(linker, log);
  const translator = compileTranslator(compiler, log);
  const script = join(work, 'plugin.js');
  await bundle({ entryPoints: ['src/cni-shim/quickjs-main.ts'], outfile: script, format: 'iife', target: 'es2020', minify: true });
  const bytecode = join(work, 'plugin.c');
  // By its base name, which is in the bytecode: two builds must be equal.
  execFileSync(translator, ['-c', '-o', bytecode, '-N', 'seine_plugin', basename(script)], { cwd: work, stdio: 'inherit' });
  const program = join(work, 'seine');
  const libraries = engineSources.map((name) => join(objects, objectOf(name)));
  const flags = [...hostFlags, '-isystem', engine, '-static', '-s', '-Wl,--gc-sections'];
  execFileSync(linker, [...flags, '-o', program, ...programSources, bytecode, ...libraries, '-lm', '-lpthread'], {
    stdio: 'inherit',
  });
  if (!isForeign) mustAnswer(program);
  renameSync(program, nativeProgram);
}

function mustAnswer(program) {
  const answer = spawnSync(program, { env: { CNI_COMMAND: 'VERSION' }, encoding: 'utf8', input: '' });
  if (answer.status !== 0 || !answer.stdout.includes('supportedVersions'))
    throw new Error(`the plugin was built but does not answer VERSION: ${answer.stderr || answer.stdout || answer.error}`);
}

/** Compiles the engine of the plugin. @returns the folder of the objects */
function compileEngine(compiler, log) {
  return compileOnce('engine', { compiler, sources: engineSources, log }, () => undefined);
}

/** Compiles the bytecode compiler, for this host. @returns its path */
function compileTranslator(compiler, log) {
  const link = (/** @type {string} */ work, /** @type {readonly string[]} */ objects) =>
    execFileSync(compiler, ['-o', join(work, 'qjsc'), ...objects, '-lm', '-ldl', '-lpthread'], { stdio: 'inherit' });
  return join(compileOnce('translator', { compiler, sources: [...engineSources, ...compilerSources], log }, link), 'qjsc');
}

/** Takes about ten seconds, once for each version of engine and C compiler. @returns the folder of the objects */
function compileOnce(name, { compiler, sources, log }, finish) {
  const engineVersion = readFileSync(join(engine, 'VERSION'), 'utf8');
  const key = createHash('sha256').update(JSON.stringify([engineFlags, versionOf(compiler), engineVersion, sources]));
  const folder = join(cache, `${name}-${key.digest('hex').slice(0, 16)}`);
  if (existsSync(folder)) return folder;
  log('compiling the QuickJS engine (once, some ten seconds)');
  const work = mkdtempSync(join(cache, 'engine-work-'));
  try {
    // Assertions contain the name of the source as given to the compiler: not the folder of a checkout.
    for (const source of sources)
      execFileSync(compiler, [...engineFlags, '-c', '-o', join(work, objectOf(source)), source], { cwd: engine, stdio: 'inherit' });
    finish(
      work,
      sources.map((source) => join(work, objectOf(source))),
    );
    renameSync(work, folder);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
  return folder;
}

function objectOf(source) {
  return source.replace(/\.c$/, '.o');
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const at = process.argv.indexOf('--arch');
  const architecture = nodeArchitecture(at < 0 ? undefined : process.argv[at + 1]);
  const options = { force: process.argv.includes('--force'), native: !process.argv.includes('--no-compiler'), architecture };
  const what = await buildShim({ ...options, log: (line) => process.stderr.write(`${line}\n`) });
  process.stderr.write(`plugin: ${what === 'unchanged' ? 'up to date' : `built (${what})`}\n`);
}
