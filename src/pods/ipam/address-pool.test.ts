import { describe, expect, it } from 'vitest';
import { cidrAddress, parseCidr, parseIp } from '../../base/net/ip.ts';
import { AddressPool } from './address-pool.ts';

function pool(text: string, gatewayIndex = 1n): AddressPool {
  const cidr = parseCidr(text);
  return new AddressPool({ cidr, gateway: cidrAddress(cidr, gatewayIndex) });
}

describe('a pool of addresses', () => {
  it('allocates each address once, and not the network, the gateway or the broadcast', () => {
    const small = pool('10.1.0.0/29');
    const allocated = Array.from({ length: small.size }, () => small.take()?.text);
    expect(allocated).toEqual(['10.1.0.2', '10.1.0.3', '10.1.0.4', '10.1.0.5', '10.1.0.6']);
    expect(small.take()).toBeUndefined();
  });

  it('has no broadcast in IPv6, but a subnet-router anycast address', () => {
    const small = pool('fd00::/125');
    const allocated = Array.from({ length: small.size }, () => small.take()?.text);
    expect(allocated).toEqual(['fd00::2', 'fd00::3', 'fd00::4', 'fd00::5', 'fd00::6', 'fd00::7']);
    expect(small.claim(parseIp('fd00::'))).toBe('reserved');
  });

  it('continues from the last address, so that a released one is reused late', () => {
    const small = pool('10.1.0.0/29');
    const [first, second] = [small.take(), small.take()];
    expect([first?.text, second?.text]).toEqual(['10.1.0.2', '10.1.0.3']);
    if (first) small.free(first);
    expect(Array.from({ length: 4 }, () => small.take()?.text)).toEqual(['10.1.0.4', '10.1.0.5', '10.1.0.6', '10.1.0.2']);
  });

  it('allocates the last free address of a full pool', () => {
    const full = pool('10.1.0.0/24');
    while (full.take());
    full.free(parseIp('10.1.0.77'));
    expect(full.take()?.text).toBe('10.1.0.77');
    expect(full.taken).toBe(full.size);
  });

  it('reports why a certain address is not available', () => {
    const small = pool('10.1.0.0/24');
    expect(small.claim(parseIp('10.1.0.9'))).toBe('claimed');
    expect(small.claim(parseIp('10.1.0.9'))).toBe('taken');
    expect(small.claim(parseIp('10.1.0.1'))).toBe('reserved');
    expect(small.claim(parseIp('10.1.0.255'))).toBe('reserved');
    expect(small.claim(parseIp('10.1.1.9'))).toBe('outside');
    expect(small.claim(parseIp('fd00::9'))).toBe('outside');
  });

  it('accepts a /64 unchanged', () => {
    const large = pool('fd00:1::/64');
    expect(large.take()?.text).toBe('fd00:1::2');
    expect(large.claim(parseIp('fd00:1::ffff:ffff:ffff:ffff'))).toBe('claimed');
  });

  it('rejects a range without room', () => {
    expect(() => pool('10.1.0.0/31')).toThrow('too small');
    expect(() => new AddressPool({ cidr: parseCidr('10.1.0.0/24'), gateway: parseIp('10.2.0.1') })).toThrow('not in pod CIDR');
  });
});
