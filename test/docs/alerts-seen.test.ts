import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { everyKind } from '../chaos/steps/all.ts';
import { alertRules } from '../support/observability.ts';

/*
 * `docs/records/chaos.md` names for each shipped alert the fault that raised and cleared it on a real node.
 */

const root = join(import.meta.dirname, '..', '..');
const shipped = alertRules().map(({ alert }) => alert);
const rows = seenAlerts(readFileSync(join(root, 'docs', 'records', 'chaos.md'), 'utf8'));

interface Row {
  readonly alert: string;
  readonly by: string;
  readonly run: string;
}

function seenAlerts(page: string): readonly Row[] {
  const [, table = ''] = /<!-- alerts: begin -->\n([\s\S]*?)<!-- alerts: end -->/.exec(page) ?? [];
  return [...table.matchAll(/^\| `(Seine\w+)` \| (.*?) \| (.*) \|$/gm)].map(([, alert = '', by = '', run = '']) => ({ alert, by, run }));
}

it('has a row for each shipped alert, and for no other', () => {
  expect(rows.map(({ alert }) => alert).toSorted()).toEqual(shipped.toSorted());
});

it.each(rows)('$alert: the fault that raised it exists, and names a run, or a reason why there is none', ({ alert, by, run }) => {
  const named = [...by.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name);
  if (named.length === 0) {
    expect(by).toBe('not seen');
    expect(run.length).toBeGreaterThan(60); // why
    return;
  }
  for (const name of named) {
    const kind = everyKind.find((each) => each.name === name);
    expect([name, kind !== undefined || existsSync(join(root, 'test', `${name}.test.ts`))]).toEqual([name, true]);
    // A step that is not judged by its alert proves nothing the next time.
    if (kind !== undefined)
      expect([name, kind.alerts ?? (kind.part === undefined ? [] : ['SeineDrift'])]).toEqual([name, expect.arrayContaining([alert])]);
  }
  expect(run).toMatch(/seeds? \d.*\d{4}-\d\d-\d\d/);
});
