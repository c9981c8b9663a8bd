import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, statSync } from 'node:fs';
import { join } from 'node:path';

const folder = join(import.meta.dirname, '../../.cache/bench');

/** The program compiled from the C file of this name next to this file; recompiled when that is newer. */
export function compiled(name: string): string {
  const source = join(import.meta.dirname, `${name}.c`);
  const program = join(folder, name);
  if (existsSync(program) && statSync(program).mtimeMs >= statSync(source).mtimeMs) return program;
  mkdirSync(folder, { recursive: true });
  const fresh = `${program}.${process.pid}`;
  execFileSync('cc', ['-O2', '-Wall', '-Wextra', '-o', fresh, source]);
  renameSync(fresh, program);
  return program;
}
