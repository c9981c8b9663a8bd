import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gunzipSync } from 'node:zlib';
import { z } from 'zod';

const execute = promisify(execFile);
const root = join(import.meta.dirname, '..', '..');
const fixtures = join(root, 'test', 'fixtures', 'releases');
/** Inputs of a build. Releases before 0.23.0 have the lab in `src`. */
const parts = ['package.json', '.npmrc', 'tsconfig.json', 'build', 'src', 'lab'];

const releaseSchema = z.strictObject({
  version: z.string().regex(/^\d+\.\d+\.\d+$/),
  commit: z.string().regex(/^[0-9a-f]{40}$/),
  date: z.iso.date(),
});

/** A released version, as recorded by `npm run release`. */
export type Release = z.infer<typeof releaseSchema>;

/** The programs of a release, built from the history of this repository. */
export interface BuiltRelease extends Release {
  /** Its sources with their packages, and `dist`. */
  readonly folder: string;
  /** Script that node runs as the agent. */
  readonly agent: string;
  /** The CNI plugin. */
  readonly plugin: string;
  /** Script that node runs as seinectl. */
  readonly seinectl: string;
}

/** All recorded releases, the newest first. @throws Error if a record is malformed */
export function releases(): readonly Release[] {
  return readdirSync(fixtures)
    .map((folder) => releaseSchema.parse(JSON.parse(readFileSync(join(fixtures, folder, 'release.json'), 'utf8'))))
    .toSorted((a, b) => b.version.localeCompare(a.version, 'en', { numeric: true }));
}

/** The lock file of the release. */
export function lockFileOf({ version }: Release): string {
  return gunzipSync(readFileSync(join(fixtures, version, 'package-lock.json.gz'))).toString('utf8');
}

/** @param version the newest release if absent. @throws Error with the recorded ones */
export function releaseOf(version?: string): Release {
  const all = releases();
  const found = version === undefined ? all[0] : all.find((release) => release.version === version);
  if (!found) throw new Error(`there is no release ${version ?? ''}; there are ${all.map((release) => release.version).join(', ')}`);
  return found;
}

/**
 * Builds a release from its commit with the packages of its lock file; once, because `.cache` keeps it.
 *
 * @throws Error with the remedy if the history does not contain it, as in a shallow clone
 */
export async function builtRelease(release: Release): Promise<BuiltRelease> {
  const folder = join(root, '.cache', `release-${release.version}-${release.commit.slice(0, 12)}`);
  if (!existsSync(folder)) await build(release, folder);
  const dist = join(folder, 'dist');
  const [agent, plugin, seinectl] = [join(dist, 'seine-agent.mjs'), join(dist, 'bin', 'seine'), join(dist, 'seinectl.mjs')];
  return { ...release, folder, agent, plugin, seinectl };
}

/** Extracts the files of a release into a folder, as in its commit, with its lock file. @throws Error as `builtRelease` */
export async function checkOutRelease(release: Release, folder: string): Promise<void> {
  await unpack(release, folder, []);
}

/** Renamed into place when complete. */
async function build(release: Release, folder: string): Promise<void> {
  mkdirSync(join(root, '.cache'), { recursive: true });
  const fresh = mkdtempSync(join(root, '.cache', 'release-'));
  try {
    await unpack(release, fresh, parts);
    await execute('npm', ['ci'], { cwd: fresh });
    for (const script of ['build/bundle.mjs', 'build/build-shim.mjs']) await execute(process.execPath, [script], { cwd: fresh });
    renameSync(fresh, folder);
  } catch (thrown) {
    rmSync(fresh, { recursive: true, force: true });
    throw thrown;
  }
}

/** @param paths all if empty */
async function unpack(release: Release, folder: string, paths: readonly string[]): Promise<void> {
  await ensureCommit(release);
  const archive = join(folder, 'archive.tar');
  const { stdout } = await git('ls-tree', '--name-only', release.commit, ...paths);
  await git('archive', `--output=${archive}`, release.commit, ...(paths.length > 0 ? stdout.trim().split('\n') : []));
  await execute('tar', ['-xf', archive, '-C', folder]);
  rmSync(archive);
  writeFileSync(join(folder, 'package-lock.json'), lockFileOf(release));
}

/** A shallow clone lacks it; its remote has it. */
async function ensureCommit({ version, commit }: Release): Promise<void> {
  const isThere = () => git('cat-file', '-e', `${commit}^{commit}`).then(...asBoolean);
  if (await isThere()) return;
  const fetched = await git('fetch', '--quiet', '--depth=1', 'origin', commit).then(...asBoolean);
  if (fetched && (await isThere())) return;
  throw new Error(
    `this clone has no commit ${commit}, release ${version} (test/fixtures/releases), and \`origin\` does not give it: ` +
      `run \`git fetch --unshallow\`, or \`git fetch --depth=1 URL ${commit}\` with the repository's URL, then try again`,
  );
}

const asBoolean = [() => true, () => false] as const;

/** The clone may belong to another user than root. */
async function git(...args: readonly string[]): Promise<{ readonly stdout: string }> {
  return await execute('git', ['-c', `safe.directory=${root}`, '-C', root, ...args]);
}
