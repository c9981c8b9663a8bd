import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { isRunning, type ProcessId } from './process.ts';

/** Writes a file of mode 0600 whole or not at all; its folder is made, 0700, if it is missing. */
export function writeFileWhole(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const draft = `${path}.${process.pid}.draft`;
  writeFileSync(draft, text, { mode: 0o600 });
  renameSync(draft, path);
}

/** Undefined if there is no such file. */
export function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}

/** A pid file of ours holds the start time too, so that a pid used again is not taken for the old process. */
export function writePidFile(path: string, id: ProcessId): void {
  writeFileWhole(path, `${id.pid} ${id.startTime}\n`);
}

/** The process a pid file of ours names, if it still runs. */
export function livingProcess(path: string): ProcessId | undefined {
  const [pid, startTime] = (readIfThere(path) ?? '').split(/\s+/).map(Number);
  if (!pid || !startTime) return undefined;
  const id = { pid, startTime };
  return isRunning(id) ? id : undefined;
}

export function removeFile(path: string): void {
  rmSync(path, { force: true });
}
