import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, it } from 'vitest';

const root = join(import.meta.dirname, '..', '..');

interface Report {
  readonly ok: boolean;
  readonly checks: readonly { readonly name: string; readonly ok: boolean; readonly detail: string }[];
}

/**
 * `npm test` runs the part of the demo that takes a minute or two in an emulated host, where the start of an agent takes longest; `.ci/run`
 * runs all of it.
 */
const isWhole = process.env['SEINE_TEST_KERNEL_DEMO'] === 'whole';
const short = { words: ['--nodes', '2', '--families', 'ipv4', '--no-restart'], checksLeast: 21 };
const whole = { words: [], checksLeast: 39 };
const { words, checksLeast } = isWhole ? whole : short;

/** The pipeline is tested with both data paths; this host's kernel may have only one. Runs alone. */
it(`passes every check of the demo on the kernel’s data path${isWhole ? '' : ', with two nodes and IPv4'}`, {
  timeout: 900_000,
}, async () => {
  const program = join(root, 'build', 'kernel-vm', 'run.mjs');
  const child = spawn(process.execPath, [program, '--json', ...words], { stdio: ['ignore', 'pipe', 'pipe'] });
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  const lastLine = stdout.trimEnd().split('\n').at(-1) ?? '';
  expect(lastLine, stderr.slice(-4000)).toMatch(/^\{/);
  const { checks } = JSON.parse(lastLine) as Report;
  expect(checks.filter(({ ok }) => !ok)).toEqual([]);
  expect(checks.length).toBeGreaterThanOrEqual(checksLeast);
});
