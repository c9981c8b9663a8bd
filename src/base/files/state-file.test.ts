import { mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { StateFile } from './state-file.ts';

let folder = '';
const path = () => join(folder, 'state', 'file');

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'state-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

it('is absent, then complete, and leaves no temporary files', async () => {
  const file = new StateFile(path(), 100);
  expect(file.read()).toBeUndefined();
  await Promise.all([file.write('first'), file.write('second')]);
  expect(file.read()).toBe('second');
  expect(readdirSync(join(folder, 'state'))).toEqual(['file']);
});

it('is not read if it is not a regular file, or too long', async () => {
  const file = new StateFile(path(), 4);
  await file.write('12345');
  expect(() => file.read()).toThrow('longer than 4');
  rmSync(path());
  writeFileSync(join(folder, 'elsewhere'), 'x');
  symlinkSync(join(folder, 'elsewhere'), path());
  expect(() => file.read()).toThrow('INVALID_INPUT');
  await file.write('1234');
  expect(file.read()).toBe('1234');
});

it('reports write errors, and is written once possible', async () => {
  writeFileSync(join(folder, 'state'), 'in the way');
  const file = new StateFile(path(), 100);
  await expect(file.write('x')).rejects.toMatchObject({ code: 'UNAVAILABLE' });
  rmSync(join(folder, 'state'));
  await file.write('x');
  expect(file.read()).toBe('x');
});
