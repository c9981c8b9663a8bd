import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { lockFileOf, releaseOf, releases } from '../support/releases.ts';
import { runProgram } from '../support/run-program.ts';

const root = join(import.meta.dirname, '..', '..');
const changelog = readFileSync(join(root, 'CHANGELOG.md'), 'utf8');

describe('the releases on record', () => {
  it.each(releases())('$version has the lock file of its version', (release) => {
    expect(JSON.parse(lockFileOf(release))).toMatchObject({ name: 'seine', version: release.version });
  });

  it.each(releases().slice(0, -1))('$version has its heading in the changelog', ({ version, date }) => {
    expect(changelog).toContain(`## [${version}] - ${date}`);
  });

  it('are distinguished by their versions', () => {
    expect(releaseOf().version).toBe(releases()[0]?.version);
    expect(releaseOf('0.1.0').commit).toMatch(/^[0-9a-f]{40}$/);
    expect(() => releaseOf('0.0.9')).toThrow('there is no release 0.0.9; there are');
  });
});

describe('npm run release', () => {
  const clone = mkdtempSync(join(tmpdir(), 'seine-release-'));
  const git = (...args: string[]): string =>
    execFileSync('git', ['-C', clone, '-c', 'user.name=t', '-c', 'user.email=t@example.org', ...args], { encoding: 'utf8' }).trim();
  const record = () => runProgram(process.execPath, [join(clone, 'build', 'release.mjs')]);
  afterEach(() => rmSync(clone, { recursive: true, force: true }));

  /** The files of a repository that a release reads. */
  function commit(version: string, heading: string): void {
    writeFileSync(join(clone, 'package.json'), JSON.stringify({ type: 'module', version }));
    writeFileSync(join(clone, 'package-lock.json'), JSON.stringify({ name: 'seine', version }));
    writeFileSync(join(clone, 'CHANGELOG.md'), `# Changelog\n\n## [Unreleased]\n\n${heading}\n`);
    git('add', '--all');
    git('commit', '--quiet', '--message', version);
  }

  it('records the commit once the version is raised and the changelog has it', async () => {
    mkdirSync(join(clone, 'build', 'setup'), { recursive: true });
    for (const file of ['build/release.mjs', 'build/setup/paths.mjs']) cpSync(join(root, file), join(clone, file));
    git('init', '--quiet');
    commit('0.2.0', '## [0.1.0] - 2026-11-21');
    expect((await record()).stderr).toContain('CHANGELOG.md has no heading `## [0.2.0] - YYYY-MM-DD`');
    commit('0.2.0', '## [0.2.0] - 2026-11-23');
    const { code, stdout } = await record();
    expect({ code, stdout }).toMatchObject({ code: 0, stdout: expect.stringContaining('release 0.2.0 of 2026-11-23') });
    const text = readFileSync(join(clone, 'test', 'fixtures', 'releases', '0.2.0', 'release.json'), 'utf8');
    expect(JSON.parse(text)).toEqual({ version: '0.2.0', commit: git('rev-parse', 'HEAD'), date: '2026-11-23' });
    expect((await record()).stderr).toContain('changes that no commit holds');
    commit('0.1.9', '## [0.1.9] - 2026-11-24');
    expect((await record()).stderr).toContain('release 0.2.0 is recorded already, and 0.1.9 does not come after it');
  });
});
