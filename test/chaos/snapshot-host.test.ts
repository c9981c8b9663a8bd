import { expect, it } from 'vitest';
import { linkLocalOf } from './snapshot-host.ts';

it('writes link-local addresses as the kernel does', () => {
  expect(linkLocalOf('7e:1c:ee:61:ed:28')).toBe('fe80::7c1c:eeff:fe61:ed28');
  expect(linkLocalOf('02:00:0a:00:00:01')).toBe('fe80::aff:fe00:1'); // the zeros after the prefix are omitted
});
