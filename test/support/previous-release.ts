import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

const execute = promisify(execFile);
const root = join(import.meta.dirname, '..', '..');
const fixture = 'test/fixtures/previous-release';
const parts = ['package.json', 'tsconfig.json', 'build', 'src'];

/** The programs of the release before this one, built from the history of this repository. */
export interface PreviousRelease {
  readonly commit: string;
  /** What node runs as the agent. */
  readonly agent: string;
  /** The CNI plugin. */
  readonly plugin: string;
  /** What node runs as seinectl. */
  readonly seinectl: string;
}

/**
 * Builds the commit that `test/fixtures/previous-release` names, with the packages of the working tree; once, as `.cache` keeps it.
 *
 * @throws Error that says what to do if the history does not go back to it, as in a shallow clone
 */
export async function previousRelease(): Promise<PreviousRelease> {
  const commit = readFileSync(join(root, fixture), 'utf8').trim();
  if (!/^[0-9a-f]{40}$/.test(commit)) throw new Error(`${fixture} holds ${JSON.stringify(commit)}, which is no commit`);
  const folder = join(root, '.cache', `release-${commit.slice(0, 12)}`);
  if (!existsSync(folder)) await build(commit, folder);
  const dist = join(folder, 'dist');
  const [agent, plugin, seinectl] = [join(dist, 'seine-agent.mjs'), join(dist, 'bin', 'seine'), join(dist, 'seinectl.mjs')];
  return { commit, agent, plugin, seinectl };
}

/** Renamed into place when whole. */
async function build(commit: string, folder: string): Promise<void> {
  await ensureCommit(commit);
  mkdirSync(join(root, '.cache'), { recursive: true });
  const fresh = mkdtempSync(join(root, '.cache', 'release-'));
  try {
    const archive = join(fresh, 'archive.tar');
    await git('archive', `--output=${archive}`, commit, ...parts);
    await execute('tar', ['-xf', archive, '-C', fresh]);
    rmSync(archive);
    symlinkSync(join(root, 'node_modules'), join(fresh, 'node_modules'));
    for (const script of ['build/bundle.mjs', 'build/build-shim.mjs']) await execute(process.execPath, [script], { cwd: fresh });
    renameSync(fresh, folder);
  } catch (thrown) {
    rmSync(fresh, { recursive: true, force: true });
    throw thrown;
  }
}

/** A shallow clone has not got it; the remote that it came from has. */
async function ensureCommit(commit: string): Promise<void> {
  const isThere = () => git('cat-file', '-e', `${commit}^{commit}`).then(...asBoolean);
  if (await isThere()) return;
  const fetched = await git('fetch', '--quiet', '--depth=1', 'origin', commit).then(...asBoolean);
  if (fetched && (await isThere())) return;
  throw new Error(
    `this clone has no commit ${commit}, the previous release (${fixture}), and \`origin\` does not give it: ` +
      `run \`git fetch --unshallow\`, or \`git fetch --depth=1 URL ${commit}\` with the repository's URL, then try again`,
  );
}

const asBoolean = [() => true, () => false] as const;

/** The clone may belong to another user than root. */
async function git(...args: readonly string[]): Promise<void> {
  await execute('git', ['-c', `safe.directory=${root}`, '-C', root, ...args]);
}
