import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { isRunning, type ProcessId } from './process.ts';

/** Writes a file of mode 0600 atomically; its folder is created, 0700, if missing. */
export function writeFileWhole(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const draft = `${path}.${process.pid}.draft`;
  writeFileSync(draft, text, { mode: 0o600 });
  renameSync(draft, path);
}

/** Content of a file; undefined if there is none. */
export function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}

/** Writes a pid file with the start time, so that a reused pid is not taken for the old process. */
export function writePidFile(path: string, id: ProcessId): void {
  writeFileWhole(path, `${id.pid} ${id.startTime}\n`);
}

/** The process of a pid file, if it still runs. */
export function livingProcess(path: string): ProcessId | undefined {
  const [pid, startTime] = (readIfThere(path) ?? '').split(/\s+/).map(Number);
  if (!pid || !startTime) return undefined;
  const id = { pid, startTime };
  return isRunning(id) ? id : undefined;
}

export function removeFile(path: string): void {
  rmSync(path, { force: true });
}
