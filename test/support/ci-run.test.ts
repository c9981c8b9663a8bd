import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { packageRoot } from '../../lab/machine/installation.ts';

/* CI's script, with stand-ins for `npm` and `go`: executed parts, last line and exit code. */

let programs = '';
beforeAll(() => {
  programs = mkdtempSync(join(tmpdir(), 'seine-ci-'));
});
afterAll(() => rmSync(programs, { recursive: true }));

interface Machine {
  /** Script of `npm`. */
  readonly npm: string;
  /** Output of `go version`; no Go if absent. */
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

const [random, kernel] = [
  'npm run test:random -- --only models,policy,first-packet,crash,chaos --seed 38',
  'npm test -- --project emulated',
];
const demo = 'npm run test:ovs -- --version 3.5 --only demo';
const kubernetes = 'npm run test:kubernetes -- --short';
/** Each part writes its result to the given file; the download of OVS packages is checked before. */
function npmOf({ fetched = 0, suite = 'echo 10 0', longer = 'echo 5 0', cluster = 'echo 23 0' }): string {
  const parts = {
    test: `${suite} >$SEINE_TEST_SUMS`,
    '*test:random*': `${longer} >$SEINE_TEST_SUMS`,
    '*--project\\ emulated': '[ $SEINE_TEST_KERNEL_DEMO = whole ] && echo 1 0 >$SEINE_TEST_SUMS',
    '*--only\\ demo': 'echo 39 0 >$SEINE_TEST_SUMS',
    '*test:kubernetes*': `${cluster} >$SEINE_TEST_SUMS`,
  };
  const cases = Object.entries(parts).map(([words, does]) => `${words}) echo "npm $*"; ${does};;`);
  return `case "$*" in ${cases.join(' ')} *ovs-vswitchd*) exit ${fetched};; *) exit 99;; esac; exit \${code:-0}`;
}
const passing = npmOf({});
const newest = 'go version go1.26.8 linux/amd64';

it('runs all tests, the random ones for longer, the demo on the other data path and on a newer switch, and some on a real Kubernetes', () => {
  expect(ran({ npm: passing, go: newest })).toEqual({
    lines: ['npm test', random, kernel, demo, kubernetes, '78 passed, 0 failed'],
    code: 0,
  });
});

it('reports that Go is missing or too old, or that modules are not available', () => {
  for (const go of [undefined, 'go version go1.19.8 linux/amd64'])
    expect(ran({ npm: passing, ...(go !== undefined && { go }) })).toEqual({
      lines: ['npm test', random, kernel, demo, expect.stringMatching(/^NOT RUN: .*Go 1\.21 or newer/), '55 passed, 0 failed'],
      code: 0,
    });
  const { lines, code } = ran({ npm: passing, go: newest, modules: 'are refused' });
  expect([lines[4], lines[5], code]).toEqual([expect.stringMatching(/^NOT RUN: .*no modules/), '55 passed, 0 failed', 0]);
});

it('reports that the packages of the newer switch cannot be downloaded', () => {
  expect(ran({ npm: npmOf({ fetched: 1 }), go: newest })).toEqual({
    lines: [
      ...['npm test', random, kernel],
      expect.stringMatching(/^NOT RUN: the demo on Open vSwitch 3\.5: .*fails$/),
      ...[kubernetes, '39 passed, 0 failed'],
    ],
    code: 0,
  });
});

it('ends with the first part that fails', () => {
  expect(ran({ npm: npmOf({ suite: 'code=1; echo 9 1' }), go: newest })).toEqual({ lines: ['npm test', '9 passed, 1 failed'], code: 1 });
  expect(ran({ npm: npmOf({ longer: 'code=1; echo 4 1' }), go: newest })).toEqual({
    lines: ['npm test', random, '14 passed, 1 failed'],
    code: 1,
  });
  expect(ran({ npm: npmOf({ cluster: 'code=3; echo 22 1' }), go: newest })).toEqual({
    lines: ['npm test', random, kernel, demo, kubernetes, '77 passed, 1 failed'],
    code: 3,
  });
});

it('counts a part without sums as failed', () => {
  expect(ran({ npm: 'exit 2', go: newest })).toEqual({ lines: ['0 passed, 1 failed'], code: 2 });
});
