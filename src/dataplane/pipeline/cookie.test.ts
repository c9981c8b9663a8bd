import fc from 'fast-check';
import { expect, it } from 'vitest';
import { cookieFeature, cookieOf, cookieWords, cookieWordsAfter, isLearned, learnedCookieOf, type Owner, ownerOf } from './cookie.ts';

// Cookies are on live bridges: an agent with other cookies would rewrite every flow.
it.each([
  [ownerOf('node'), 0x1_01b1_c14e_0d4dn],
  [ownerOf('endpoint', 'tcp', '10.0.0.1', '80'), 0x1_0537_0860_425en],
  [ownerOf('service', 'default/web:http/ipv4'), 0x1_040a_63a2_9b5cn],
  [ownerOf('peer', 'wörker'), 0x1_026b_be67_2786n],
])('gives %s its fixed cookie', (owner, cookie) => {
  expect(cookieOf(owner)).toBe(cookie);
  expect(cookieFeature(cookie)).toBe(owner.split('/')[0]);
  expect(learnedCookieOf(owner) & 0xff_ffff_ffffn).toBe(cookie & 0xff_ffff_ffffn);
  expect([isLearned(cookie), isLearned(learnedCookieOf(owner))]).toEqual([false, true]);
});

it('hashes an owner in two parts like in one', () => {
  const both = fc.property(fc.string(), fc.array(fc.string(), { maxLength: 4 }), (name, rests) => {
    const beginning = ownerOf('policy', name, '');
    const cookieAfter = cookieWordsAfter(beginning);
    for (const rest of rests) expect(cookieAfter(rest)).toEqual(cookieWords(`${beginning}${rest}` as Owner));
  });
  fc.assert(both);
});
