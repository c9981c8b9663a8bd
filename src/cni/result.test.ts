import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type CniResult, formatResult, parseResult } from './result.ts';
import { cniVersions } from './versions.ts';

const result: CniResult = {
  interfaces: [
    { name: 'web-1a2b3c', mac: '02:00:00:00:00:01', mtu: 1450 },
    { name: 'eth0', mac: '02:00:00:00:00:02', mtu: 1450, sandbox: '/run/netns/a' },
  ],
  ips: [
    { address: '10.1.0.2/22', gateway: '10.1.0.1', interface: 1 },
    { address: 'fd00::2/64', gateway: 'fd00::1', interface: 1 },
  ],
  routes: [
    { dst: '0.0.0.0/0', gw: '10.1.0.1', mtu: 1450 },
    { dst: '::/0', gw: 'fd00::1' },
  ],
  dns: { nameservers: ['10.96.0.10'], domain: 'cluster.local' },
};

const legacy = {
  ip4: { ip: '10.1.0.2/22', gateway: '10.1.0.1', routes: [{ dst: '0.0.0.0/0', gw: '10.1.0.1' }] },
  ip6: { ip: 'fd00::2/64', gateway: 'fd00::1', routes: [{ dst: '::/0', gw: 'fd00::1' }] },
  dns: result.dns,
};
const plainInterfaces = [
  { name: 'web-1a2b3c', mac: '02:00:00:00:00:01' },
  { name: 'eth0', mac: '02:00:00:00:00:02', sandbox: '/run/netns/a' },
];
const plainRoutes = [
  { dst: '0.0.0.0/0', gw: '10.1.0.1' },
  { dst: '::/0', gw: 'fd00::1' },
];
const withFamily = {
  interfaces: plainInterfaces,
  ips: [
    { version: '4', address: '10.1.0.2/22', gateway: '10.1.0.1', interface: 1 },
    { version: '6', address: 'fd00::2/64', gateway: 'fd00::1', interface: 1 },
  ],
  routes: plainRoutes,
  dns: result.dns,
};

describe('a result', () => {
  it.each([
    ['0.1.0', legacy],
    ['0.2.0', legacy],
    ['0.3.0', withFamily],
    ['0.3.1', withFamily],
    ['0.4.0', withFamily],
    ['1.0.0', { interfaces: plainInterfaces, ips: result.ips, routes: plainRoutes, dns: result.dns }],
    ['1.1.0', { ...result }],
  ] as const)('is written in the form of %s', (version, expected) => {
    expect(JSON.parse(formatResult(result, version))).toEqual({ cniVersion: version, ...expected });
  });

  it('of IPv6 alone has no ip4 in 0.2.0', () => {
    const only6 = { ...result, ips: result.ips.slice(1), routes: result.routes.slice(1) };
    expect(JSON.parse(formatResult(only6, '0.2.0'))).toEqual({ cniVersion: '0.2.0', ip6: legacy.ip6, dns: result.dns });
  });

  it('omits routes of other tables in versions without that field', () => {
    const second = { ...result, routes: [...result.routes, { dst: '192.0.2.0/24', table: 1000 }] };
    expect(JSON.parse(formatResult(second, '1.1.0'))).toMatchObject({ routes: second.routes });
    for (const version of ['0.4.0', '1.0.0'] as const)
      expect(JSON.parse(formatResult(second, version))).toMatchObject({ routes: plainRoutes });
  });

  it('is read in its own version, whatever version the configuration has', () => {
    expect(parseResult(JSON.parse(formatResult(result, '0.2.0')), '1.1.0').ips).toEqual(
      result.ips.map(({ address, gateway }) => ({ address, gateway })),
    );
    expect(parseResult(JSON.parse(formatResult(result, '1.1.0')), '0.2.0')).toEqual(result);
  });

  it('is read back as it was written in 1.1.0', () => {
    expect(parseResult(JSON.parse(formatResult(result, '1.1.0')), '1.1.0')).toEqual(result);
  });

  it('keeps its addresses and gateways through every version', () => {
    fc.assert(
      fc.property(fc.constantFrom(...cniVersions), fc.ipV4(), fc.ipV6(), (version, ip4, ip6) => {
        const one: CniResult = {
          ...result,
          ips: [
            { address: `${ip4}/24`, gateway: ip4 },
            { address: `${ip6}/64`, gateway: ip6 },
          ],
        };
        expect(parseResult(JSON.parse(formatResult(one, version)), version).ips).toEqual(one.ips);
      }),
    );
  });
});
