import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { dropNames, drops } from '../../src/dataplane/pipeline/drops.ts';
import { tableNames } from '../../src/dataplane/pipeline/tables.ts';
import { root } from '../support/source-tree.ts';

/** The example of the page on tracing names tables, a drop and its texts as the program prints them. */
const [, example = ''] = /^```text\n\$ seinectl trace [^\n]*\n(.*?)^```/ms.exec(readFileSync(join(root, 'docs/tracing.md'), 'utf8')) ?? [];

it('has hops in tables of the pipeline, in their order', () => {
  const hops = Array.from(example.matchAll(/^ {2}(?:node-1| {6}) {2}(\w+) {2,}\S/gm), ([, table]) => table);
  const names: readonly string[] = tableNames;
  const positions = hops.map((table = '') => names.indexOf(table));
  expect(positions.length).toBeGreaterThan(2);
  expect(positions).not.toContain(-1);
  expect(positions).toEqual(positions.toSorted((one, other) => one - other));
});

it('has the texts of its drop', () => {
  const [, table, reason, message] = /^ {2}Dropped in (\w+) on node-1 \(([\w.]+)\); \d+ such packets so far: (.*)\.$/m.exec(example) ?? [];
  const name = dropNames.find((each) => each === reason);
  expect(name && drops[name]).toMatchObject({ table, message });
  expect(example).toContain(`\n    Usual cause: ${name && drops[name].cause}.\n    What to do: ${name && drops[name].remedy}.\n`);
});
