import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { privateFolder } from './private-folder.ts';

let base: string;
beforeEach(() => (base = mkdtempSync(join(tmpdir(), 'seine-folder-'))));
afterEach(() => rmSync(base, { recursive: true }));

const modeOf = (path: string): number => statSync(path).mode & 0o7777;

describe('privateFolder', () => {
  it('creates a folder, with its parents', () => {
    privateFolder(join(base, 'a', 'b'));
    expect([modeOf(join(base, 'a')), modeOf(join(base, 'a', 'b'))]).toEqual([0o700, 0o700]);
  });
  it('restricts the mode of an open one', () => {
    const path = join(base, 'open');
    mkdirSync(path);
    chmodSync(path, 0o777);
    privateFolder(path);
    expect(modeOf(path)).toBe(0o700);
  });
  it('refuses a link, whatever its target', () => {
    mkdirSync(join(base, 'real'), { mode: 0o755 });
    symlinkSync(join(base, 'real'), join(base, 'link'));
    expect(() => privateFolder(join(base, 'link'))).toThrow('is a link or no folder');
    expect(modeOf(join(base, 'real'))).toBe(0o755);
  });
  it('refuses a file', () => {
    writeFileSync(join(base, 'file'), '');
    expect(() => privateFolder(join(base, 'file'))).toThrow('is a link or no folder');
  });
  it.skipIf(process.geteuid?.() !== 0)('refuses a folder of another user', () => {
    const path = join(base, 'theirs');
    mkdirSync(path, { mode: 0o700 });
    chownSync(path, 65_534, 65_534);
    expect(() => privateFolder(path)).toThrow('belongs to user 65534');
  });
  it.each(['/run', '/tmp/', '/var/run', '/run/x/..'])('refuses the shared folder %s', (path) =>
    expect(() => privateFolder(path)).toThrow('a folder of its own is needed'),
  );
});
