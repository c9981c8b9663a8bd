import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { packageRoot } from '../../src/lab/machine/installation.ts';

/* What CI calls, with other programs in the place of `npm` and `go`: which parts run, and what the last line and the exit code are. */

let programs = '';
beforeAll(() => {
  programs = mkdtempSync(join(tmpdir(), 'seine-ci-'));
});
afterAll(() => rmSync(programs, { recursive: true }));

interface Machine {
  /** What `npm` does. */
  readonly npm: string;
  /** What `go version` says; there is no Go if left out. */
  readonly go?: string;
  readonly modules?: 'can be had' | 'are refused';
}

function ran({ npm, go, modules = 'can be had' }: Machine): { readonly lines: readonly string[]; readonly code: number | null } {
  const write = (name: string, script: string) => writeFileSync(join(programs, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  const gets = modules === 'can be had' ? 0 : 1;
  write('npm', npm);
  write('go', go === undefined ? 'exit 127' : `[ "$1" = version ] && echo "${go}" && exit 0; exit ${gets}`);
  const env = { ...process.env, PATH: `${programs}:${process.env['PATH']}` };
  const { stdout, status } = spawnSync('bash', ['.ci/run'], { cwd: packageRoot, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  return { lines: stdout.trimEnd().split('\n'), code: status };
}

/** Both parts write what they came to where they are told to. */
const passing = 'echo "npm $*"; [ "$1" = test ] && echo 10 0 >$SEINE_TEST_SUMS || echo 23 0 >$SEINE_TEST_SUMS';
const newest = 'go version go1.26.8 linux/amd64';

it('runs all tests, then some on a real Kubernetes, and adds up both', () => {
  expect(ran({ npm: passing, go: newest })).toEqual({
    lines: ['npm test', 'npm run test:kubernetes -- --short', '33 passed, 0 failed'],
    code: 0,
  });
});

it('says so where there is no Go that builds it, or no module to be had', () => {
  for (const go of [undefined, 'go version go1.19.8 linux/amd64'])
    expect(ran({ npm: passing, ...(go !== undefined && { go }) })).toEqual({
      lines: ['npm test', expect.stringMatching(/^NOT RUN: .*Go 1\.21 or newer/), '10 passed, 0 failed'],
      code: 0,
    });
  const { lines, code } = ran({ npm: passing, go: newest, modules: 'are refused' });
  expect([lines[1], lines[2], code]).toEqual([expect.stringMatching(/^NOT RUN: .*no modules/), '10 passed, 0 failed', 0]);
});

it('ends with the first part that fails', () => {
  const first = 'echo "npm $*"; echo 9 1 >$SEINE_TEST_SUMS; exit 1';
  expect(ran({ npm: first, go: newest })).toEqual({ lines: ['npm test', '9 passed, 1 failed'], code: 1 });
  const second = `${passing}; [ "$1" = test ] || { echo 22 1 >$SEINE_TEST_SUMS; exit 3; }`;
  expect(ran({ npm: second, go: newest })).toEqual({
    lines: ['npm test', 'npm run test:kubernetes -- --short', '32 passed, 1 failed'],
    code: 3,
  });
});

it('counts a part that came to no sums as one that failed', () => {
  expect(ran({ npm: 'exit 2', go: newest })).toEqual({ lines: ['0 passed, 1 failed'], code: 2 });
});
