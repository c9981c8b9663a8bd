import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { tableNamesIn } from './legacy-iptables.ts';

const folder = mkdtempSync(join(tmpdir(), 'seine-iptables-'));
afterAll(() => rmSync(folder, { recursive: true }));

it('has the tables that the kernel lists', () => {
  const file = join(folder, 'ip_tables_names');
  writeFileSync(file, 'nat\nmangle\n');
  expect(tableNamesIn(file)).toEqual(['nat', 'mangle']);
});

it('has none where the kernel has not loaded the module', () => {
  expect(tableNamesIn(join(folder, 'no-such-file'))).toEqual([]);
});
