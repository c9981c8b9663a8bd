import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type HeldState, heldStates } from '../support/held-states.ts';
import { alertRules } from '../support/observability.ts';

/*
 * `docs/reliability.md` lists detected changes (`generated.test.ts`); each of its rows must have a test that injects the fault.
 */

const alerts = new Set(alertRules().map(({ alert }) => alert));
const textOf = (test: string): string => readFileSync(join(import.meta.dirname, '..', `${test}.test.ts`), 'utf8');

describe.each(Object.entries<HeldState>(heldStates))('%s', (id, { alerts: named, tests, titles, ...cells }) => {
  it('is injected by the first of its tests, by its name or by existing titles', () => {
    const [test = ''] = tests;
    const testedRows = Array.from(textOf(test).matchAll(/^driftTests\('([^']+)',/gm), ([, row]) => row);
    if (titles === undefined) expect(testedRows).toContain(id);
    else expect(titles.filter((title) => !textOf(test).includes(`'${title}'`))).toEqual([]);
    expect(titles).not.toEqual([]);
    for (const other of tests) expect(textOf(other)).not.toBe('');
  });

  it('raises existing alerts', () => {
    expect(named.filter((name) => !alerts.has(name))).toEqual([]);
    expect(named.length).toBeGreaterThan(0);
  });

  it('leaves no cell empty', () => {
    for (const cell of Object.values(cells)) expect(cell).not.toBe('');
  });
});
