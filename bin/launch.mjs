/**
 * Starts a program of seine on a Node that can run it, whatever Node this is (18 or newer parses this file).
 *
 * The bundle in `dist/` is run if it is there and, in a checkout, no source is newer than it; else the sources.
 */
import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { constants } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..');

/** `engines` of package.json: the first Node that runs TypeScript sources without a flag. */
const oldest = { major: 22, minor: 18 };

/**
 * @param {string} bundle file name below `dist/`
 * @param {string} source path of the entry below the root, for a checkout without a bundle
 * @param {readonly string[]} flags of node
 * @param {Readonly<Record<string, string>>} environment what the program is to have in it, unless it is set already
 */
export async function launch(bundle, source, flags = [], environment = {}) {
  const program = programFile(join(root, 'dist', bundle), join(root, source));
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const runsHere = major > oldest.major || (major === oldest.major && minor >= oldest.minor);
  const isSetUp = flags.every((flag) => process.execArgv.includes(flag)) && Object.keys(environment).every((name) => name in process.env);
  for (const [name, value] of Object.entries(environment)) process.env[name] ??= value;
  if (runsHere && isSetUp) await import(pathToFileURL(program).href);
  else runWith(runsHere ? process.execPath : pinnedNode(), [...flags, program, ...process.argv.slice(2)]);
}

/** Of node, for the agent: they keep its memory small. One place for launcher and lab: package.json. */
export function agentFlags() {
  const { config } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  return config['agent-node-flags'].split(' ');
}

/** For the C library of the agent, which reads it when it starts. */
export function agentEnvironment() {
  const { config } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  return Object.fromEntries(config['agent-environment'].split(' ').map((each) => each.split('=')));
}

function programFile(bundle, source) {
  if (!existsSync(source)) return bundle;
  return existsSync(bundle) && statSync(bundle).mtimeMs >= Math.max(...['src', 'lab'].map((folder) => newestSource(join(root, folder))))
    ? bundle
    : source;
}

/** Time of the last change to any source, in milliseconds. */
function newestSource(folder) {
  if (!existsSync(folder)) return 0;
  return readdirSync(folder, { withFileTypes: true }).reduce((newest, entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return Math.max(newest, newestSource(path));
    return entry.name.endsWith('.ts') && !entry.name.endsWith('.test.ts') ? Math.max(newest, statSync(path).mtimeMs) : newest;
  }, 0);
}

function pinnedNode() {
  try {
    const folder = dirname(createRequire(join(root, 'package.json')).resolve(`node-linux-${process.arch}/package.json`));
    return join(folder, 'bin', 'node');
  } catch {
    console.error(`seine needs Node ${oldest.major}.${oldest.minor} or newer and this is ${process.version}; \`npm run setup\` brings one`);
    process.exit(1);
  }
}

/** Becomes that node where this one can (22.15 or newer). Else a child gets our terminal and every signal we get; we end as it ends. */
function runWith(node, args) {
  process.removeAllListeners('warning'); // execve is "experimental"; the warning does not help who starts an agent
  process.execve?.(node, [node, ...args], process.env);
  const child = spawn(node, args, { stdio: 'inherit' });
  const forwarded = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'];
  for (const signal of forwarded) process.on(signal, () => child.kill(signal));
  child.on('error', (error) => {
    console.error(`seine: ${error.message}`);
    process.exit(127);
  });
  child.on('exit', (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
}
