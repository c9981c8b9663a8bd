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

it('is not there, then whole, and leaves nothing beside it', async () => {
  const file = new StateFile(path(), 100);
  expect(file.read()).toBeUndefined();
  await Promise.all([file.write('first'), file.write('second')]);
  expect(file.read()).toBe('second');
  expect(readdirSync(join(folder, 'state'))).toEqual(['file']);
});

it('is not read where something else has its name, or when it is too long', async () => {
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

it('says that it cannot be written, and is written once it can', async () => {
  writeFileSync(join(folder, 'state'), 'in the way');
  const file = new StateFile(path(), 100);
  await expect(file.write('x')).rejects.toMatchObject({ code: 'UNAVAILABLE' });
  rmSync(join(folder, 'state'));
  await file.write('x');
  expect(file.read()).toBe('x');
});
