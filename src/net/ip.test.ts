import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cidrAddress, cidrContains, ipFromBytes, ipFromValue, ipToBytes, parseCidr, parseIp } from './ip.ts';

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

  it('gives back every address from its text and from its octets', () => {
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

describe('parseCidr', () => {
  it('clears host bits', () => expect(parseCidr('10.1.2.3/22').text).toBe('10.1.0.0/22'));
  it('knows what it holds', () => {
    const cidr = parseCidr('fd00:1::/64');
    expect(cidrContains(cidr, parseIp('fd00:1::ffff'))).toBe(true);
    expect(cidrContains(cidr, parseIp('fd00:1:0:1::'))).toBe(false);
    expect(cidrContains(cidr, parseIp('10.0.0.1'))).toBe(false);
    expect(cidrAddress(cidr, 1n).text).toBe('fd00:1::1');
  });
  it('holds everything with a prefix of 0', () => expect(cidrContains(parseCidr('0.0.0.0/0'), parseIp('255.1.1.1'))).toBe(true));
  it.each(['10.0.0.0', '10.0.0.0/33', '10.0.0.0/-1', '10.0.0.0/8/8', 'x/8'])('refuses %j', (text) =>
    expect(() => parseCidr(text)).toThrow(),
  );
});
