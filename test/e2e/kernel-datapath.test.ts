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

/** The pipeline is judged by both data paths; this machine's kernel may have only one. Takes two to four minutes, alone. */
it('holds every check of the demo on the kernel’s data path', { timeout: 900_000 }, async () => {
  const child = spawn(process.execPath, [join(root, 'build', 'kernel-vm', 'run.mjs'), '--json'], { stdio: ['ignore', 'pipe', 'pipe'] });
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  const lastLine = stdout.trimEnd().split('\n').at(-1) ?? '';
  expect(lastLine, stderr.slice(-4000)).toMatch(/^\{/);
  const { checks } = JSON.parse(lastLine) as Report;
  expect(checks.filter(({ ok }) => !ok)).toEqual([]);
  expect(checks.length).toBeGreaterThan(20);
});
