/** `npm run release:check`: compares the tag with the version and the changelog before anything is built, and writes the release notes. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { releaseOf } from '../release.mjs';
import { root } from '../setup/paths.mjs';
import { releaseNotes } from './notes.ts';
import { commonRows, type OptionRows, type OptionValues } from './options.ts';
import { fromCaller } from './record.ts';
import { type Runner, runStep } from './step.ts';

const rows = {
  tag: {
    value: 'vX.Y.Z',
    env: 'SEINE_TAG',
    about: 'tag of the release',
    expects: (text: string) => (/^v\d+\.\d+\.\d+$/.test(text) ? undefined : 'vX.Y.Z, such as v1.2.3'),
  },
  out: commonRows.out,
} as const satisfies OptionRows;

function main(values: OptionValues<keyof typeof rows>, runner: Runner): Promise<void> {
  const git = (...args: readonly string[]) =>
    execFileSync('git', ['-c', `safe.directory=${root}`, '-C', root, ...args], { encoding: 'utf8' }).trim();
  const read = (file: string) => readFileSync(join(root, file), 'utf8');
  const changes = git('status', '--porcelain', '--untracked-files=no');
  if (changes !== '') throw new Error(`a release is a commit, and these files have changes that are not committed: ${changes}`);
  const tag = values.text('tag');
  const changelog = read('CHANGELOG.md');
  const { version, date } = releaseOf({
    manifest: read('package.json'),
    lock: read('package-lock.json'),
    changelog,
    commit: git('rev-parse', 'HEAD'),
    recorded: [],
  });
  if (tag !== `v${version}`) throw new Error(`tag ${JSON.stringify(tag)} does not name the version in package.json: expected v${version}`);
  const out = fromCaller(values.text('out'));
  const file = join(out, 'notes.md');
  if (runner.isDry) runner.note(`would write: ${file}`);
  else {
    mkdirSync(out, { recursive: true });
    writeFileSync(file, releaseNotes(changelog, version));
  }
  runner.note(`${tag} is version ${version} of ${date}`);
  return Promise.resolve();
}

await runStep({ name: 'release:check', about: 'compares a tag with version and changelog, and writes release notes', rows, run: main });
