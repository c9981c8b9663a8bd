import { expect, it } from 'vitest';
import { parseIp } from '../../base/net/ip.ts';
import { tunnelPortType } from './node-desired-state.ts';

it('uses another interface of the kernel if GRE goes over IPv6 alone, and not otherwise', () => {
  const [ipv4, ipv6] = [parseIp('192.0.2.1'), parseIp('2001:db8::1')];
  const gre = { type: 'gre', port: 0, ofPort: 1 } as const;
  const geneve = { type: 'geneve', port: 6081, ofPort: 1 } as const;
  expect(tunnelPortType('system', { tunnel: gre, transport: [ipv6] })).toBe('ip6gre');
  expect(tunnelPortType('system', { tunnel: gre, transport: [ipv4, ipv6] })).toBe('gre');
  expect(tunnelPortType('system', { tunnel: gre, transport: [ipv4] })).toBe('gre');
  expect(tunnelPortType('netdev', { tunnel: gre, transport: [ipv6] })).toBe('gre');
  expect(tunnelPortType('system', { tunnel: geneve, transport: [ipv6] })).toBe('geneve');
});
