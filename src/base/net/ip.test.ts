import { isIPv6 } from 'node:net';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  canonicalIp,
  cidrAddress,
  cidrContains,
  containedIn,
  ipFromBytes,
  ipFromValue,
  ipToBytes,
  isIp,
  parseCidr,
  parseIp,
  readCidr,
} from './ip.ts';

describe('parseIp', () => {
  it.each([
    ['10.0.0.1', '10.0.0.1'],
    ['FD00:0:0:0::1', 'fd00::1'],
    ['1:0:0:2:0:0:0:3', '1:0:0:2::3'],
    ['::', '::'],
    ['::ffff:1.2.3.4', '::ffff:102:304'],
    ['2001:db8:0:1:1:1:1:1', '2001:db8:0:1:1:1:1:1'],
  ])('reads %s as %s', (text, canonical) => expect(parseIp(text).text).toBe(canonical));

  it.each([
    '',
    '1.2.3',
    '1.2.3.',
    '.1.2.3',
    '1..2.3',
    '1.2.3.4.5',
    '1.2.3.4 ',
    '1.2.3.00',
    '1.2.3.1000',
    '1.2.3.256',
    '01.2.3.4',
    '1::2::3',
    ':1',
    '1:2:3:4:5:6:7',
    '1:2:3:4:5:6:7:8:9',
    'fe80::1%eth0',
    '::12345',
    '1:2:3:4:5:6:7::8:9',
  ])('refuses %j', (text) => expect(() => parseIp(text)).toThrow(/is not an IP address/));

  it('converts every address to text and bytes and back', () => {
    const addresses = fc.oneof(
      fc.bigInt(0n, 2n ** 32n - 1n).map((value) => ipFromValue('ipv4', value)),
      fc.bigInt(0n, 2n ** 128n - 1n).map((value) => ipFromValue('ipv6', value)),
    );
    fc.assert(
      fc.property(addresses, (ip) => {
        expect(parseIp(ip.text)).toEqual(ip);
        expect(ipFromBytes(ipToBytes(ip))).toEqual(ip);
      }),
    );
  });
});

describe('an IPv6 address', () => {
  const group = fc.constantFrom('0', '0', '0', '1', '00', 'ab', 'FFFF', '12345', 'g', '');
  const written = fc.oneof(
    fc.array(group, { minLength: 1, maxLength: 10 }).map((groups) => groups.join(':')),
    fc
      .tuple(fc.array(group, { maxLength: 7 }), fc.array(group, { maxLength: 7 }))
      .map((halves) => halves.map((half) => half.join(':')).join('::')),
    fc.array(group, { maxLength: 7 }).map((groups) => `${groups.join(':')}:1.2.3.${groups.length * 50}`),
    fc
      .array(fc.constantFrom(':', '::', '0', '1', 'a', 'F', '.', '1.2.3.4'), { minLength: 1, maxLength: 16 })
      .map((parts) => `:${parts.join('')}`),
  );

  it('is read as by Node, and has the text of a URL', () => {
    let valid = 0;
    fc.assert(
      fc.property(written, (text) => {
        if (!text.includes(':')) return;
        expect([text, isIp(text)]).toEqual([text, isIPv6(text)]);
        const ofUrl = isIPv6(text) ? new URL(`http://[${text}]`).hostname.slice(1, -1) : undefined;
        expect(canonicalIp(text)).toBe(ofUrl);
        if (ofUrl === undefined) return;
        valid++;
        expect(parseIp(text).text).toBe(ofUrl);
        expect(ipFromValue('ipv6', parseIp(text).value).text).toBe(ofUrl);
      }),
      { numRuns: 5_000 },
    );
    expect(valid).toBeGreaterThan(300);
  });
});

describe('parseCidr', () => {
  it('clears host bits', () => expect(parseCidr('10.1.2.3/22').text).toBe('10.1.0.0/22'));
  it('tests whether it contains an address', () => {
    const cidr = parseCidr('fd00:1::/64');
    expect(cidrContains(cidr, parseIp('fd00:1::ffff'))).toBe(true);
    expect(cidrContains(cidr, parseIp('fd00:1:0:1::'))).toBe(false);
    expect(cidrContains(cidr, parseIp('10.0.0.1'))).toBe(false);
    expect(cidrAddress(cidr, 1n).text).toBe('fd00:1::1');
  });
  it('agrees for several at once with each alone', () => {
    const texts = ['0.0.0.0/0', '10.0.0.0/8', '10.1.2.3/32', '224.0.0.0/4', '::/0', 'fd00::/8', '::1/128'];
    const asked = ['0.0.0.0', '10.1.2.3', '11.0.0.0', '239.255.255.255', '240.0.0.0', '::', '::1', 'fd00::1', 'fe80::1'].map(parseIp);
    for (let which = 0; which < 2 ** texts.length; which++) {
      const cidrs = texts.filter((_, at) => (which >> at) & 1).map(parseCidr);
      const isIn = containedIn(cidrs);
      for (const ip of asked) expect(isIn(ip)).toBe(cidrs.some((cidr) => cidrContains(cidr, ip)));
    }
  });

  it('contains everything with a prefix of 0', () => expect(cidrContains(parseCidr('0.0.0.0/0'), parseIp('255.1.1.1'))).toBe(true));
  it.each(['10.0.0.0', '10.0.0.0/33', '10.0.0.0/-1', '10.0.0.0/8/8', 'x/8'])('refuses %j', (text) =>
    expect(() => parseCidr(text)).toThrow(),
  );
});

describe('readCidr', () => {
  it.each(['10.0.0.0/8', '0.0.0.0/0', '10.1.2.3/32', '::/0', 'fd00::/64', 'FD00:0:0::/64', 'fd00:00a0::/64', '::1/128'])(
    'reads %s',
    (text) => expect(readCidr(text)).toEqual({ cidr: parseCidr(text) }),
  );
  it.each([
    ['10.0.0.0/08', '"10.0.0.0/08" has leading zeros; 10.0.0.0/8 has not'],
    ['010.0.0.0/8', '"010.0.0.0/8" has leading zeros; 10.0.0.0/8 has not'],
    ['0.0.0.0/00', 'has leading zeros'],
    ['fd00::/064', 'has leading zeros'],
    ['10.0.0.5/24', '"10.0.0.5/24" has host bits; the network is 10.0.0.0/24'],
    ['fd00::1/64', '"fd00::1/64" has host bits; the network is fd00::/64'],
    ['::ffff:10.0.0.0/104', '"::ffff:10.0.0.0/104" is a network of IPv4 written as IPv6'],
    ['::ffff:a00:0/104', 'is a network of IPv4 written as IPv6'],
    ['::ffff:0:0/96', 'is a network of IPv4 written as IPv6'],
  ])('reports the error in %j', (text, why) => expect(readCidr(text).fault).toContain(why));
  it('clears host bits', () =>
    expect(['010.0.0.5/08', 'fd00::1/064'].map((text) => readCidr(text).cidr.text)).toEqual(['10.0.0.0/8', 'fd00::/64']));
  it.each(['10.0.0.0', '10.0.0.0/33', '', '/8', '1.2.3.256/24', '10.0.0.0/'])('refuses %j', (text) =>
    expect(() => readCidr(text)).toThrow(/CIDR|at most 32 bits/),
  );
});
