import { expect, it } from 'vitest';
import { exampleNode } from '../../../test/support/example-node.ts';
import { clearTableBody, compileFirewall } from './compile-firewall.ts';

const wireGuard = { device: 'antrea-wg0', port: 51820, unencryptedPeers: 'drop' } as const;
const rules = (noSnat: boolean): readonly string[] => clearTableBody(exampleNode, wireGuard, { noSnat }).split('\n');

it('drops packets for encrypted networks that leave by another interface than the bridge or WireGuard', () => {
  expect(rules(false)).toEqual(
    expect.arrayContaining([
      'oifname != { "antrea-gw0", "antrea-wg0" } ip daddr @pods4 counter name "cleartext4" drop',
      'oifname != { "antrea-gw0", "antrea-wg0", "lo" } ip6 daddr @pods6 counter name "cleartext6" drop',
      'iifname != { "antrea-gw0", "antrea-wg0" } ip saddr @pods4 counter name "cleartext4" drop',
    ]),
  );
});

it('admits packets of pods to addresses of this node itself where pods keep their addresses', () => {
  expect(rules(true)).toContain(
    'iifname != { "antrea-gw0", "antrea-wg0" } ip saddr @pods4 fib daddr type != local counter name "cleartext4" drop',
  );
});

it('accepts pods’ addresses from the WireGuard device, and translates no source of pods there', () => {
  const text = (environment: typeof exampleNode): string =>
    compileFirewall(environment, { dataPath: 'system', noSnat: false })
      .flatMap((chain) => chain.rules)
      .join('\n');
  const [without, encrypted] = [text(exampleNode), text({ ...exampleNode, wireGuard })];
  expect(without).not.toContain('wg0');
  expect(encrypted).toContain('iifname != { "antrea-gw0", "antrea-wg0", "lo" } ip saddr');
  expect(encrypted).toMatch(/oifname != \{ "antrea-gw0", "antrea-wg0" \} ip saddr \S+ masquerade fully-random/);
  expect(encrypted).toMatch(/oifname "antrea-wg0" ip saddr != (\S+) fib saddr type local snat ip to \1 fully-random/);
});
