import { existsSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { runLogged } from './commands.mjs';
import { pinnedNodeBin, root, toolPath } from './paths.mjs';
import { SetupError, say } from './progress.mjs';

/** The `engines` of package.json. */
const oldestNode = [22, 18];

const quietly = ['--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];

/** True if `node_modules` agrees with the lock file, as far as npm recorded it there. */
export function nodePackagesAreThere() {
  const installed = readLock(join('node_modules', '.package-lock.json'));
  if (installed === undefined) return false;
  const wanted = readLock('package-lock.json') ?? {};
  const same = Object.entries(wanted).every(([path, locked]) => {
    if (path === '') return true;
    const there = installed[path];
    return there === undefined ? mayBeAbsent(locked) : there.version === locked.version && there.integrity === locked.integrity;
  });
  return same && Object.keys(installed).every((path) => path in wanted) && (nodeIsNewEnough() || pinnedNodeIsThere());
}

/** Installs the packages of the lock file, without install scripts, and with them the pinned Node. */
export async function installNodePackages() {
  say('installing npm packages from the lock file (among them Node 24; about 200 MB)');
  await npm('npm-ci', process.execPath, ['ci', ...quietly]);
  if (nodeIsNewEnough()) return;
  if (!pinnedNodeIsThere())
    throw new SetupError(
      `npm brought no Node for ${process.platform}-${process.arch}, and this one is ${process.version}`,
      `install Node ${oldestNode.join('.')} or newer and run the command again`,
    );
  // npm omits optional packages that do not fit the Node it runs on. Those omitted because the host's is old are installed now.
  await npm('npm-install', join(pinnedNodeBin, 'node'), ['install', '--no-save', ...quietly]);
}

function npm(name, node, args) {
  const { npm_execpath: running = '' } = process.env;
  const [command, ...first] = basename(running) === 'npm-cli.js' ? [node, running] : ['npm'];
  return runLogged(name, command, [...first, ...args], {
    cwd: root,
    env: { PATH: toolPath() },
    remedy: 'check that npm reaches its registry (`npm ping`), and run the command again',
  });
}

/** Optional packages for other platforms may be; so may those that name no platform, because one of these requires them. */
function mayBeAbsent({ optional, devOptional, os = [], cpu = [], libc = [] }) {
  const suits = [os].flat().includes(process.platform) && [cpu].flat().includes(process.arch) && ![libc].flat().includes('musl');
  return (optional ?? devOptional) === true && !suits;
}

function nodeIsNewEnough() {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  return major > oldestNode[0] || (major === oldestNode[0] && minor >= oldestNode[1]);
}

function pinnedNodeIsThere() {
  return existsSync(join(pinnedNodeBin, 'node'));
}

function readLock(path) {
  try {
    return JSON.parse(readFileSync(join(root, path), 'utf8')).packages;
  } catch {
    // Absent or truncated: the same as never installed.
    return undefined;
  }
}
