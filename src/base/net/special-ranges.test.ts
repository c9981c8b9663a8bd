import { expect, it } from 'vitest';
import { parseIp } from './ip.ts';
import { isSpecial } from './special-ranges.ts';

it.each(['0.0.0.0', '127.0.0.1', '127.255.0.9', '169.254.169.254', '169.254.0.253', '224.0.0.18', '255.255.255.255'])(
  'refuses the special-purpose address %s',
  (text) => expect(isSpecial(parseIp(text))).toBe(true),
);
it.each(['::', '::1', '::10.0.0.1', '::ffff:10.0.0.1', '::ffff:0:10.0.0.1', 'fe80::1', 'ff02::1', 'ff0e::1'])(
  'refuses the special-purpose address %s',
  (text) => expect(isSpecial(parseIp(text))).toBe(true),
);
it.each(['10.10.0.5', '100.64.0.1', '169.253.0.1', '8.8.8.8', 'fd00:10::5', '2001:db8::1', 'fc01::1'])('accepts %s', (text) =>
  expect(isSpecial(parseIp(text))).toBe(false),
);
it.each(['240.0.0.1', '255.255.255.254', '64:ff9b::192.0.2.1', '64:ff9b:1::1'])('accepts %s, of class E or of NAT64', (text) =>
  expect(isSpecial(parseIp(text))).toBe(false),
);
