import { expect, it } from 'vitest';
import { ifIndex } from '../../netlink/interface-name.ts';
import type { Link } from '../../netlink/links.ts';
import { RecentLinks } from './recent-links.ts';

it('reads an interface once a second, also one that is absent', () => {
  const time = { ms: 5 };
  const read: number[] = [];
  const links = new RecentLinks({
    read: (index) => {
      read.push(index);
      return index === 7 ? ({ name: `eth${time.ms}` } as Link) : undefined;
    },
    now: () => time.ms,
  });
  const names = (): readonly (string | undefined)[] => [7, 8, 7, 8].map((index) => links.get(ifIndex(index))?.name);
  expect(names()).toEqual(['eth5', undefined, 'eth5', undefined]);
  time.ms = 1_004;
  expect(names()[0]).toBe('eth5');
  expect(read).toEqual([7, 8]);
  time.ms = 1_005;
  expect(names()).toEqual(['eth1005', undefined, 'eth1005', undefined]);
  expect(read).toEqual([7, 8, 7, 8]);
});
