import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { run } from '../../lab/machine/process.ts';

const root = resolve(import.meta.dirname, '..', '..');

/** Architectures by their names in npm and Node. */
export type NodeArchitecture = 'x64' | 'arm64';

/**
 * The packages of the lock file, with the native parts of that architecture, which npm omits here. Recreated when the lock file has
 * changed.
 *
 * @returns the folder that contains `node_modules`
 */
export async function npmPackagesFor(architecture: NodeArchitecture, signal: AbortSignal): Promise<string> {
  const folder = join(root, '.cache', `npm-${architecture}`);
  const mark = join(folder, 'installed-from');
  const lock = readFileSync(join(root, 'package-lock.json'), 'utf8');
  if (existsSync(mark) && readFileSync(mark, 'utf8') === lock) return folder;
  mkdirSync(folder, { recursive: true });
  const manifests = ['package.json', ...workspaces().map((workspace) => join(workspace, 'package.json'))];
  for (const name of [...manifests, 'package-lock.json', '.npmrc']) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    copyFileSync(join(root, name), join(folder, name));
  }
  const suiting = ['--os', 'linux', '--cpu', architecture, '--libc', 'glibc'];
  await run('npm', ['--prefix', folder, 'ci', '--ignore-scripts', '--include=optional', '--loglevel=error', ...suiting], {}, signal);
  writeFileSync(mark, lock);
  return folder;
}

/** Folders of the packages within this one; `npm ci` requires their manifests too. */
function workspaces(): readonly string[] {
  const { workspaces: folders } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { workspaces: readonly string[] };
  return folders;
}
