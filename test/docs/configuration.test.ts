import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { configKeys, parseConfig } from '../../src/agent/config/agent-config.ts';

const docs = join(import.meta.dirname, '..', '..', 'docs');
const read = (name: string): string => readFileSync(join(docs, name), 'utf8');

/** Key and default of each row, of the tables that begin with a key in backquotes. */
function rowsOf(page: string): Map<string, string> {
  return new Map(
    Array.from(page.matchAll(/^\| (`[^|]+`) \| ([^|]+) \|/gm), ([, keys = '', usual = '']) =>
      Array.from(keys.matchAll(/`([^`]+)`/g), ([, key = '']) => [key, usual] as const),
    ).flat(),
  );
}

const keys = configKeys();
const listed = rowsOf(read('configuration.md'));

it('lists every key of the agent, and no other', () => {
  expect([...listed.keys()].toSorted()).toEqual([...keys].toSorted());
});

it('has the default of each key', () => {
  const config: unknown = parseConfig('', { NODE_NAME: 'n1' });
  const settingOf = (key: string) =>
    key.split('.').reduce<unknown>((value, part) => (value as Readonly<Record<string, unknown>> | undefined)?.[part], config);
  const wrong = [...listed].filter(([key, usual]) => {
    const value = settingOf(key);
    if (key === 'proxy' || key === 'nodeName') return false;
    return typeof value === 'object' || value === undefined ? usual.startsWith('`') : usual !== (value === '' ? 'empty' : `\`${value}\``);
  });
  expect(wrong).toEqual([]);
});
