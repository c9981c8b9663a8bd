import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { releaseNotes } from '../../build/release/notes.ts';
import { packageRoot } from '../../lab/machine/installation.ts';

describe('release notes', () => {
  const changelog =
    '# Changelog\n\n## [Unreleased]\n\n- later\n\n## [1.2.3] - 2026-01-01\n\n### Changed\n\n- this\n\n## [1.2.2] - 2025-01-01\n\n[1]: x\n';
  it('are the section of the version', () => expect(releaseNotes(changelog, '1.2.3')).toBe('### Changed\n\n- this\n'));
  it('are refused where the section is empty or absent', () => {
    expect(() => releaseNotes(changelog, '1.2.2')).toThrow('the section 1.2.2 of CHANGELOG.md is empty');
    expect(() => releaseNotes(changelog, '9.9.9')).toThrow('CHANGELOG.md has no section 9.9.9');
  });
});

describe('the workflow', () => {
  const text = readFileSync(join(packageRoot, '.github', 'workflows', 'release.yml'), 'utf8');
  const page = readFileSync(join(packageRoot, 'docs', 'contributing', 'releasing.md'), 'utf8');
  const workflow = parse(text) as {
    readonly jobs: Readonly<
      Record<string, { readonly needs?: string; readonly steps: readonly { readonly run?: string; readonly uses?: string }[] }>
    >;
  };
  const commands = (workflow.jobs['publish']?.steps ?? []).flatMap(({ run }) => run?.match(/npm run release:\w+/g) ?? []);

  it('runs every step, in the order of the page, after all suites', () => {
    expect(workflow.jobs['publish']?.needs).toBe('test');
    const ofPage = Array.from(page.matchAll(/^\| `(npm run release:\w+)/gm), ([, command]) => command);
    expect(ofPage).toEqual(
      ['check', 'images', 'manifest', 'seinectl', 'packages', 'sign', 'publish'].map((name) => `npm run release:${name}`),
    );
    expect([...new Set(commands)]).toEqual(ofPage);
  });

  it('names no registry and no account, and runs no action of others', () => {
    const variables = [...text.matchAll(/\b(?:vars|secrets)\.(\w+)/g)].map(([, name]) => name);
    expect(variables).toContain('SEINE_REGISTRY');
    for (const name of new Set(variables)) expect(page).toContain(`\`${name}\``);
    expect(Object.values(workflow.jobs).flatMap((job) => job.steps.flatMap(({ uses }) => uses ?? []))).toEqual([]);
    expect(text).not.toMatch(/ghcr\.io|docker\.io|quay\.io/);
  });

  it('is read by the steps: each variable that it sets for them is one of theirs', () => {
    const sources = readdirSync(join(packageRoot, 'build', 'release')).map((file) =>
      readFileSync(join(packageRoot, 'build', 'release', file), 'utf8'),
    );
    const read = new Set(sources.join('').match(/SEINE_\w+/g));
    const set = [...text.matchAll(/^ {6}(SEINE_\w+):/gm)].map(([, name = '']) => name);
    expect(set.length).toBeGreaterThan(5);
    expect(set.filter((name) => !read.has(name))).toEqual([]);
  });
});
