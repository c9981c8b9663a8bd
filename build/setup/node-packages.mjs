import { existsSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { runLogged } from './commands.mjs';
import { pinnedNodeBin, root } from './paths.mjs';
import { SetupError, say } from './progress.mjs';

/** What package.json asks for in `engines`. */
const oldestNode = [22, 18];

/** True if `node_modules` holds exactly what the lock file says, as far as npm recorded it there. */
export function nodePackagesAreThere() {
  const installed = readLock(join('node_modules', '.package-lock.json'));
  if (installed === undefined) return false;
  const wanted = readLock('package-lock.json') ?? {};
  const same = Object.entries(wanted).every(([path, { version, integrity, optional, devOptional }]) => {
    if (path === '') return true;
    const there = installed[path];
    // Optional packages are left out where they do not fit the platform; the one we need among them, Node, is asked for below.
    return there === undefined ? (optional ?? devOptional) === true : there.version === version && there.integrity === integrity;
  });
  return same && Object.keys(installed).every((path) => path in wanted) && aNodeIsThere();
}

/** Installs what the lock file says, no install script of any package run, and with it the pinned Node. */
export async function installNodePackages() {
  say('installing npm packages from the lock file (among them Node 24; about 200 MB)');
  const { npm_execpath: running = '' } = process.env;
  const [command, ...first] = basename(running) === 'npm-cli.js' ? [process.execPath, running] : ['npm'];
  await runLogged('npm-ci', command, [...first, 'ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: root,
    remedy: 'check that npm reaches its registry (`npm ping`), and run the command again',
  });
  if (!aNodeIsThere())
    throw new SetupError(
      `npm brought no Node for ${process.platform}-${process.arch}, and this one is ${process.version}`,
      `install Node ${oldestNode.join('.')} or newer and run the command again`,
    );
}

function aNodeIsThere() {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  return existsSync(join(pinnedNodeBin, 'node')) || major > oldestNode[0] || (major === oldestNode[0] && minor >= oldestNode[1]);
}

function readLock(path) {
  try {
    return JSON.parse(readFileSync(join(root, path), 'utf8')).packages;
  } catch {
    // Absent or torn: the same as never installed.
    return undefined;
  }
}
