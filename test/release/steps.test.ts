import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { packageRoot } from '../../lab/machine/installation.ts';
import { runAnyway } from '../../lab/machine/process.ts';

/*
 * Command lines of the steps of a release. None of these tests builds or pushes anything.
 */

const folder = mkdtempSync(join(tmpdir(), 'seine-steps-'));
const signal = AbortSignal.timeout(120_000);
afterAll(() => rmSync(folder, { recursive: true }));

const steps = ['check', 'images', 'manifest', 'seinectl', 'packages', 'sign', 'publish'] as const;
const pathOf = (name: string) => join(packageRoot, 'build', 'release', `${name}.ts`);

/** Without the variables that a workflow sets, and without programs other than Node and git. */
async function step(name: string, args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const own = { SEINE_REGISTRY: '', SEINE_TAG: '', SEINE_COSIGN_KEY: '', GITHUB_REPOSITORY: '', INIT_CWD: folder, PATH: '/usr/bin:/bin' };
  return await runAnyway(process.execPath, [pathOf(name), ...args], { env: { ...own, ...env } }, signal);
}

const dryArguments: Readonly<Record<(typeof steps)[number], readonly string[]>> = {
  check: ['--tag', 'v1.2.3'],
  images: ['--registry', 'registry.example/seine'],
  manifest: ['--registry', 'registry.example/seine'],
  seinectl: [],
  packages: [],
  sign: ['--registry', 'registry.example/seine', '--key', 'none.key'],
  publish: ['--tag', 'v1.2.3', '--repository', 'example/seine'],
};

it.each(steps)('describes release:%s by --help', async (name) => {
  const { code, stdout, stderr } = await step(name, ['--help']);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout).toMatch(new RegExp(`^npm run release:${name} -- \\[options\\]: \\S`));
  expect(stdout).toContain('--dry-run');
});

it.each(steps.filter((name) => name !== 'check'))('prints the commands of release:%s with --dry-run, and leaves no file', async (name) => {
  const { code, stdout, stderr } = await step(name, [...dryArguments[name], '--dry-run', '--out', 'nothing']);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout).toMatch(/^would run: /m);
  expect(existsSync(join(folder, 'nothing'))).toBe(false);
});

describe('invalid command lines', () => {
  const digits = '0'.repeat(64);
  it.each([
    ['images', ['--registry', 'https://registry.example/seine'], '--registry "https://registry.example/seine": expected HOST[:PORT]/PATH'],
    ['images', ['--registry', 'registry.example/Seine'], '--registry "registry.example/Seine": expected'],
    ['images', ['--registry', 'registry.example'], '--registry "registry.example": expected'],
    ['images', [], '--registry is missing: give --registry HOST/PATH, or set SEINE_REGISTRY'],
    ['images', ['--registry', 'registry.example/seine', '--arch', 'amd64,s390x'], '--arch "s390x": expected amd64 or arm64'],
    ['images', ['--registy', 'x'], "Unknown option '--registy'"],
    ['manifest', [], '--registry is missing'],
    ['check', ['--tag', '1.2.3'], '--tag "1.2.3": expected vX.Y.Z'],
    ['publish', ['--tag', 'v1.2.3', '--repository', 'seine'], '--repository "seine": expected OWNER/NAME'],
    ['packages', ['--scope', 'Example'], '--scope "Example": expected @SCOPE'],
    ['packages', ['--npm-registry', 'file:///etc'], '--npm-registry "file:///etc": expected a URL of http or https'],
  ])('of release:%s %j name option, value and remedy', async (name, args, message) => {
    const { code, stderr } = await step(name, args);
    expect(code).toBe(2);
    expect(stderr).toContain(`release:${name}: ${message}`);
  });

  it('name the variable that an invalid value comes from', async () => {
    const { code, stderr } = await step('images', [], { SEINE_REGISTRY: 'registry.example/' });
    expect(code).toBe(2);
    expect(stderr).toContain('release:images: SEINE_REGISTRY "registry.example/": expected HOST[:PORT]/PATH');
  });

  it('of later steps name the step that has to run first', async () => {
    const manifest = await step('manifest', ['--registry', 'registry.example/seine', '--out', 'empty']);
    expect(manifest.stderr).toContain('release.json has no image agent: run `npm run release:images` first');
    const publish = await step('publish', ['--tag', 'v1.2.3', '--repository', 'example/seine', '--out', 'empty']);
    expect(publish.stderr).toContain('has no SHA256SUMS.sigstore.json: run `npm run release:sign` first');
    expect([manifest.code, publish.code]).toEqual([1, 1]);
  });

  it.each([
    ['{', 'release.json is not JSON'],
    [JSON.stringify({ version: '0.0.1', commit: 'x' }), 'has version 0.0.1, and package.json'],
    [JSON.stringify({ version: '0.0.1', commit: 'x', images: { agent: { digest: digits } } }), 'release.json: images.agent.repository'],
  ])('name what is wrong with a record %s', async (text, message) => {
    const out = mkdtempSync(join(folder, 'record-'));
    writeFileSync(join(out, 'release.json'), text);
    const { code, stderr } = await step('manifest', ['--registry', 'registry.example/seine', '--out', out]);
    expect(code).toBe(1);
    expect(stderr).toContain(message);
  });
});
