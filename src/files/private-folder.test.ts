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
  it('makes one, with what is above', () => {
    privateFolder(join(base, 'a', 'b'));
    expect([modeOf(join(base, 'a')), modeOf(join(base, 'a', 'b'))]).toEqual([0o700, 0o700]);
  });
  it('closes one that is open', () => {
    const path = join(base, 'open');
    mkdirSync(path);
    chmodSync(path, 0o777);
    privateFolder(path);
    expect(modeOf(path)).toBe(0o700);
  });
  it('takes no link, whoever it leads to', () => {
    mkdirSync(join(base, 'real'), { mode: 0o755 });
    symlinkSync(join(base, 'real'), join(base, 'link'));
    expect(() => privateFolder(join(base, 'link'))).toThrow('is a link or no folder');
    expect(modeOf(join(base, 'real'))).toBe(0o755);
  });
  it('takes no file', () => {
    writeFileSync(join(base, 'file'), '');
    expect(() => privateFolder(join(base, 'file'))).toThrow('is a link or no folder');
  });
  it.skipIf(process.geteuid?.() !== 0)('takes nobody else’s folder', () => {
    const path = join(base, 'theirs');
    mkdirSync(path, { mode: 0o700 });
    chownSync(path, 65_534, 65_534);
    expect(() => privateFolder(path)).toThrow('belongs to user 65534');
  });
  it.each(['/run', '/tmp/', '/var/run', '/run/x/..'])('leaves %s to everybody', (path) =>
    expect(() => privateFolder(path)).toThrow('a folder of its own is needed'),
  );
});
