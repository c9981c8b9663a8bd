import { getPriority } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { forSecondRun } from '../../build/test-run/second-run.mjs';
import { type Ran, runProgram } from '../support/run-program.ts';

const root = join(import.meta.dirname, '..', '..');
const fixtures = 'test/fixtures/test-run';

/** Runs misbehaving tests as `npm test -- FILE` does, with shorter timeouts. */
async function run(file: string, env: NodeJS.ProcessEnv = {}, config = 'vitest.config.ts'): Promise<Ran & { readonly output: string }> {
  const words = ['build/test.mjs', '--config', `${fixtures}/${config}`, `${file}.fixture.ts`];
  const own = { ...process.env, SEINE_TEST_GRACE_S: '2', SEINE_TEST_SETTLE_S: '2', ...env };
  const ran = await runProgram(process.execPath, words, { cwd: root, env: own, timeoutMs: 50_000 });
  return { ...ran, output: ran.stdout + ran.stderr };
}

/** Anywhere on the host. */
async function sleepers(seconds: number): Promise<string> {
  return (await runProgram('pgrep', ['-f', `^sleep ${seconds}$`])).stdout;
}

/** Concurrently, because each waits for a timeout. */
describe.concurrent('a run of tests', () => {
  it('of well-behaved tests ends successfully, without output', async () => {
    const { code, output } = await run('behaves');
    expect(code, output).toBe(0);
    expect(output).not.toContain('left over');
  });

  it('ends remains of a test that timed out, and blames its file', async () => {
    const { code, output } = await run('times-out');
    expect(code).toBe(1);
    expect(output).toMatch(/the tests of this file left processes, which were ended:\s+\d+: sleep 7101/);
    expect(output).not.toContain('left over');
    expect(output).toMatch(/What failed:\n {2}times-out\.fixture\.ts > .*: Test timed out in 2000ms/);
    expect(await sleepers(7101)).toBe('');
  });

  it('ends a test that waits for a child and cannot time out, and names it', async () => {
    const { code, output } = await run('blocks');
    expect(code).toBe(1);
    expect(output).toMatch(/no test has ended for \d+ s, .*running:\s+blocks\.fixture\.ts/);
    expect(output).toMatch(/left over and ended: process \d+: sleep 7102/);
    expect(await sleepers(7102)).toBe('');
  });

  it('fails by an uncaught error, and names its file', async () => {
    const { code, output } = await run('uncaught');
    expect(code).toBe(1);
    expect(output).toMatch(/What failed:\n {2}\S*uncaught\.fixture\.ts, an error that no test caught: it is not awaited/);
  });

  it('ends an orphan without a mark', async () => {
    const { code, output } = await run('orphan');
    expect(code).toBe(1);
    expect(output).toMatch(/left over and ended: process \d+: sleep 7103/);
    expect(output).toMatch(/What failed:\n {2}left over and ended: process \d+: sleep 7103/);
    expect(await sleepers(7103)).toBe('');
  });

  it('removes a network namespace, and names its file', async () => {
    const { code, output } = await run('namespace');
    expect(code).toBe(1);
    expect(output).toMatch(/left over and removed: network namespace seine-t-left, first seen while namespace\.fixture\.ts ran/);
    expect((await runProgram('ip', ['netns', 'list'])).stdout).not.toContain('seine-t-left');
  });

  it('ends vitest if it does not end itself', async () => {
    const { code, output } = await run('stays', {}, 'stays.config.ts');
    expect(code).toBe(1);
    expect(output).toContain('all tests are over, and vitest is still there 2 s later');
  });

  it('has an end even while tests continue', async () => {
    const { code, output } = await run('blocks', { SEINE_TEST_DEADLINE_S: '2', SEINE_TEST_GRACE_S: '60', SEINE_TEST_SLEEP: '7104' });
    expect(code).toBe(1);
    expect(output).toContain('the run has taken more than 2 s');
  });
});

it('aside takes idle CPU time, in its own session, and prints elsewhere', async () => {
  const { stdout } = await runProgram(process.execPath, [`${fixtures}/aside.mjs`], { cwd: root, timeoutMs: 30_000 });
  expect(JSON.parse(stdout)).toEqual({ code: 3, niceness: String(getPriority() + 10), ofSession: '10', isOurSession: false });
});

describe('a repeated run', () => {
  const file = (name: string, ok: boolean, project = 'e2e') => ({ name, ok, project });

  it('contains the failed files', () => {
    expect(forSecondRun([file('a', true), file('b', false), file('c', false, 'integration')])).toEqual(['b', 'c']);
  });

  it('is empty if many failed', () => {
    expect(forSecondRun(['a', 'b', 'c', 'd', 'e', 'f', 'g'].map((name) => file(name, false)))).toEqual([]);
  });
});
