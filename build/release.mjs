/**
 * `npm run release`: records the checked-out commit as a release, in `test/fixtures/releases`, so that upgrades from it can be tested.
 *
 * Before: raise the version (`npm version --no-git-tag-version X.Y.Z`), add the heading `## [X.Y.Z] - YYYY-MM-DD` to CHANGELOG.md below `##
 * [Unreleased]`, commit. After: commit the record, and tag the release.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';
import { root } from './setup/paths.mjs';

/**
 * Record of a checkout as a release.
 *
 * @throws {Error} naming what is missing
 */
export function releaseOf({ manifest, lock, changelog, commit, recorded }) {
  const { version } = JSON.parse(manifest);
  if (!/^\d+\.\d+\.\d+$/.test(version)) throw new Error(`package.json has version ${version}, which is not of a release`);
  if (JSON.parse(lock).version !== version) throw new Error(`package-lock.json does not have version ${version}: run \`npm install\``);
  const newer = recorded.find((other) => other.localeCompare(version, 'en', { numeric: true }) >= 0);
  if (newer !== undefined) throw new Error(`release ${newer} is recorded already, and ${version} does not come after it`);
  const heading = changelog.split('\n').find((line) => line.startsWith(`## [${version}]`));
  const [, date] = /\] - (\d{4}-\d{2}-\d{2})$/.exec(heading ?? '') ?? [];
  if (date === undefined) throw new Error(`CHANGELOG.md has no heading \`## [${version}] - YYYY-MM-DD\``);
  return { version, commit, date };
}

function main() {
  const git = (...args) => execFileSync('git', ['-c', `safe.directory=${root}`, '-C', root, ...args], { encoding: 'utf8' }).trim();
  if (git('status', '--porcelain') !== '') throw new Error('there are changes that no commit holds: a release is a commit');
  const releases = join(root, 'test', 'fixtures', 'releases');
  const read = (file) => readFileSync(join(root, file), 'utf8');
  const lock = read('package-lock.json');
  const release = releaseOf({
    manifest: read('package.json'),
    lock,
    changelog: read('CHANGELOG.md'),
    commit: git('rev-parse', 'HEAD'),
    recorded: existsSync(releases) ? readdirSync(releases) : [],
  });
  const folder = join(releases, release.version);
  mkdirSync(folder, { recursive: true });
  const { version, commit, date } = release;
  writeFileSync(join(folder, 'release.json'), `{ "version": "${version}", "commit": "${commit}", "date": "${date}" }\n`);
  writeFileSync(join(folder, 'package-lock.json.gz'), gzipSync(lock, { level: 9 }));
  console.log(`release ${version} of ${date} is ${commit}, recorded in ${folder}`);
  console.log(`→ git add ${folder} && git commit -m "chore(release): record ${version}" && git tag v${version} ${commit}`);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  try {
    main();
  } catch (error) {
    console.error(error.message);
    process.exitCode = 1;
  }
}
