import { randomBytes } from 'node:crypto';
import { closeSync, fchmodSync, fsyncSync, openSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

interface FileContent {
  readonly bytes: Uint8Array;
  readonly mode: number;
}

/**
 * Replaces a file atomically: a reader, also after a power failure, sees the old one or the new one. `check` is called before, with the
 * path of the new content in the same folder; if it throws, nothing has changed. Deletes drafts that a killed process has left.
 */
export function placeFile(path: string, { bytes, mode }: FileContent, check: (draft: string) => void = () => undefined): void {
  const [folder, prefix] = [dirname(path), `.${basename(path)}.`];
  for (const name of readdirSync(folder))
    if (name.startsWith(prefix) && /^[0-9a-f]{8}$/.test(name.slice(prefix.length))) rmSync(join(folder, name), { force: true });
  const draft = join(folder, `${prefix}${randomBytes(4).toString('hex')}`);
  try {
    writeDraft(draft, bytes, mode);
    check(draft);
    renameSync(draft, path);
  } catch (failure) {
    rmSync(draft, { force: true });
    throw failure;
  }
  syncFolder(folder);
}

/** Deletes a file durably. @returns false if there is none */
export function removeFile(path: string): boolean {
  try {
    rmSync(path);
  } catch (failure) {
    if (failure instanceof Error && 'code' in failure && failure.code === 'ENOENT') return false;
    throw failure;
  }
  syncFolder(dirname(path));
  return true;
}

function writeDraft(path: string, bytes: Uint8Array, mode: number): void {
  const fd = openSync(path, 'wx', 0o600);
  try {
    writeFileSync(fd, bytes);
    // Independent of the umask.
    fchmodSync(fd, mode);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

function syncFolder(path: string): void {
  const fd = openSync(path, 'r');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
