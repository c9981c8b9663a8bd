import fc from 'fast-check';
import { expect, it } from 'vitest';
import { parseCidr, parseIp } from '../../base/net/ip.ts';
import { elementChanges, nftText, readElements } from './nft-elements.ts';
import { nftName, nftQuoted } from './nftables.ts';

const set = { family: 'inet', table: 'seine', name: 'services' } as const;

it('writes components as nft lists them', () => {
  expect(nftText(parseIp('10.96.0.1'), 'tcp', 80)).toBe('10.96.0.1 . 6 . 80');
  expect(nftText(parseCidr('fd00:0::/64'))).toBe('fd00::/64');
  expect(nftText({ verdict: 'goto', chain: 'ext' })).toBe('goto ext');
  expect(nftText({ verdict: 'accept' })).toBe('accept');
});

it('removes before it adds', () => {
  const add = [{ key: '10.96.0.1 . 6 . 80', value: '10.0.0.5 . 8080' }];
  expect(elementChanges(set, { remove: [{ key: '10.96.0.1 . 6 . 80' }, { key: '10.96.0.2 . 6 . 80' }], add })).toBe(
    'delete element inet seine services { 10.96.0.1 . 6 . 80, 10.96.0.2 . 6 . 80 }\n' +
      'add element inet seine services { 10.96.0.1 . 6 . 80 : 10.0.0.5 . 8080 }\n',
  );
  expect(elementChanges(set, { remove: [], add: [] })).toBe('');
});

it('escapes elements so that none ends the list', () => {
  expect(() => elementChanges(set, { remove: [], add: [{ key: '1.1.1.1 }; flush ruleset' }] })).toThrow('INVALID_INPUT');
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      let commands = '';
      try {
        commands = elementChanges(set, { remove: [{ key: text }], add: [] });
      } catch {
        return;
      }
      expect(commands).toMatch(/^delete element inet seine services \{ [^{};"\n\\#$]+ \}\n$/);
    }),
  );
});

it('accepts only safe names and comments', () => {
  expect(nftName('seine-1')).toBe('seine-1');
  expect(nftQuoted('pod default/web-0')).toBe('"pod default/web-0"');
  for (const bad of ['', 'a b', '1a', 'a;b', 'a"b', 'x'.repeat(65)]) expect(() => nftName(bad)).toThrow('INVALID_INPUT');
  for (const bad of ['', 'a"b', 'a\\b', 'a\nb', 'ä', 'x'.repeat(128)]) expect(() => nftQuoted(bad)).toThrow('INVALID_INPUT');
});

it('reads every form of element that our sets have', () => {
  const listing = [
    { metainfo: {} },
    {
      map: {
        name: 'services',
        map: 'x',
        elem: [
          [{ concat: ['10.96.0.2', 17, 53] }, { concat: ['10.0.0.6', 53] }],
          ['1.2.3.4', { goto: { target: 'ext' } }],
          ['1.2.3.5', { accept: null }],
        ],
      },
    },
    {
      set: {
        name: 'nets',
        elem: [{ prefix: { addr: '10.0.0.0', len: 8 } }, { elem: { val: 'fd00::1', comment: 'x' } }, { range: [1, 9] }],
      },
    },
    { set: { name: 'empty' } },
  ];
  expect(readElements(listing, 'services')).toEqual([
    { key: '1.2.3.4', value: 'goto ext' },
    { key: '1.2.3.5', value: 'accept' },
    { key: '10.96.0.2 . 17 . 53', value: '10.0.0.6 . 53' },
  ]);
  expect(readElements(listing, 'nets')).toEqual([{ key: '1-9' }, { key: '10.0.0.0/8' }, { key: 'fd00::1' }]);
  expect(readElements(listing, 'empty')).toEqual([]);
  expect(readElements(listing, 'other')).toBeUndefined();
});

it('refuses an element it does not know', () => {
  expect(() => readElements([{ set: { name: 'nets', elem: [{ lookup: 1 }] } }], 'nets')).toThrow('PROTOCOL');
});
