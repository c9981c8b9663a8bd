import { expect, it } from 'vitest';
import { compileLabelSelector, parseFieldSelector, parseLabelSelector } from './selectors.ts';

const labels = { app: 'web', tier: 'front', size: '5', empty: '' };

for (const [selector, matches] of [
  ['', true],
  ['app=web', true],
  ['app==web,tier=front', true],
  ['app!=web', false],
  ['other!=web', true],
  ['app in (db, web),tier', true],
  ['app notin (db,web)', false],
  ['other notin (a)', true],
  ['!other', true],
  ['!app', false],
  ['empty=', true],
  ['app=', false],
  ['size>4', true],
  ['size<5', false],
] as const) {
  it(`"${selector}" ${matches ? 'matches' : 'does not match'}`, () => {
    expect(parseLabelSelector(selector)(labels)).toBe(matches);
  });
}

it('refuses what is no selector', () => {
  expect(() => parseLabelSelector('app=we b')).toThrow('unable to parse requirement');
  expect(() => parseLabelSelector('a in b')).toThrow('unable to parse requirement');
  expect(() => parseFieldSelector('metadata.name')).toThrow('invalid selector');
});

it('rejects invalid selectors', () => {
  const matches = compileLabelSelector({
    matchLabels: { app: 'web' },
    matchExpressions: [
      { key: 'tier', operator: 'In', values: ['front'] },
      { key: 'tier', operator: 'NotIn', values: ['back'] },
      { key: 'size', operator: 'Exists' },
      { key: 'other', operator: 'DoesNotExist' },
    ],
  });
  expect(matches(labels)).toBe(true);
  expect(matches({ ...labels, other: '' })).toBe(false);
});

it('does not take inherited properties for labels', () => {
  expect(parseLabelSelector('constructor')({})).toBe(false);
});

it('reads field selectors, escapes included', () => {
  expect(parseFieldSelector('metadata.name=a\\,b,status.phase!=Running')).toEqual([
    { path: 'metadata.name', value: 'a,b', equal: true },
    { path: 'status.phase', value: 'Running', equal: false },
  ]);
});
