import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { run } from '../../src/lab/process.ts';

const root = resolve(import.meta.dirname, '..', '..');

/** As npm and Node call architectures. */
export type NodeArchitecture = 'x64' | 'arm64';

/**
 * What the lock file says, with the native parts of that architecture, which npm leaves out where we run. Made again when the lock
 * file has changed.
 *
 * @returns the folder that holds `node_modules`
 */
export async function npmPackagesFor(architecture: NodeArchitecture, signal: AbortSignal): Promise<string> {
  const folder = join(root, '.cache', `npm-${architecture}`);
  const mark = join(folder, 'installed-from');
  const lock = readFileSync(join(root, 'package-lock.json'), 'utf8');
  if (existsSync(mark) && readFileSync(mark, 'utf8') === lock) return folder;
  mkdirSync(folder, { recursive: true });
  for (const name of ['package.json', 'package-lock.json', '.npmrc']) copyFileSync(join(root, name), join(folder, name));
  const suiting = ['--os', 'linux', '--cpu', architecture, '--libc', 'glibc'];
  await run('npm', ['--prefix', folder, 'ci', '--ignore-scripts', '--include=optional', '--loglevel=error', ...suiting], {}, signal);
  writeFileSync(mark, lock);
  return folder;
}
