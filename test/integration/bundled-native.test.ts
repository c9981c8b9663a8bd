import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, it } from 'vitest';

const bundle = join(import.meta.dirname, '../../dist/seinectl.mjs');
const withoutNative = "data:text/javascript,process.dlopen = () => { throw new Error('a native library was loaded') }";

function run(...args: readonly string[]): { readonly code: number | null; readonly err: string } {
  const { status, stderr } = spawnSync(process.execPath, ['--import', withoutNative, bundle, ...args], { encoding: 'utf8' });
  return { code: status, err: stderr };
}

it.each([['--help'], ['status', '--help'], ['wire', '--help']])('seinectl %s %s loads no native library', (...args) =>
  expect(run(...args)).toEqual({ code: 0, err: '' }),
);

it('seinectl node cleanup does, for system calls', () => {
  expect(run('node', 'cleanup').err).toContain('a native library was loaded');
});
