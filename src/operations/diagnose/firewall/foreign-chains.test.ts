import { describe, expect, it } from 'vitest';
import { commandsFor, type ForeignChain, foreignChains, openChains, suspects } from './foreign-chains.ts';

const chain = (change: Partial<ForeignChain>): ForeignChain => ({
  family: 'inet',
  table: 'site',
  name: 'forward',
  type: 'filter',
  hook: 'forward',
  ...change,
});

/** nft with these answers; records the changes that it was requested to make. */
function nft(lists: Readonly<Record<string, readonly object[]>>) {
  const reported: string[] = [];
  const run = (commands: string): string => {
    if (!commands.startsWith('list ')) reported.push(commands);
    return JSON.stringify({ nftables: lists[commands] ?? [] });
  };
  return { run, reported };
}

describe('foreignChains', () => {
  it('are chains of others that decide about packets', () => {
    const listed = [
      { metainfo: {} },
      { chain: chain({}) },
      { chain: chain({ table: 'seine' }) },
      { chain: { ...chain({}), type: 'nat' } },
      { chain: { ...chain({}), hook: 'output' } },
      { chain: { ...chain({}), family: 'bridge' } },
      { chain: { family: 'inet', table: 'site', name: 'not-a-base-chain' } },
    ];
    expect(foreignChains(nft({ 'list chains': listed }))).toEqual([chain({})]);
  });
});

describe('suspects', () => {
  it('see the packets of that family at that hook', () => {
    const chains = [chain({}), chain({ family: 'ip' }), chain({ family: 'ip6' }), chain({ hook: 'input' })];
    expect(suspects(chains, [{ family: 'ipv4', hook: 'forward' }])).toEqual(chains.slice(0, 2));
    expect(suspects(chains, [{ family: 'ipv6', hook: 'input' }])).toEqual(chains.slice(3));
  });
});

describe('commandsFor', () => {
  it('are for the tool that made the chain', () => {
    expect(commandsFor(chain({}), 'antrea-gw0')).toEqual([
      'nft insert rule inet site forward iifname antrea-gw0 accept',
      'nft insert rule inet site forward oifname antrea-gw0 accept',
    ]);
    expect(commandsFor(chain({ family: 'ip6', table: 'filter', name: 'INPUT', hook: 'input' }), 'antrea-gw0')).toEqual([
      'ip6tables -I INPUT -i antrea-gw0 -j ACCEPT',
    ]);
  });
  it('do not put the name of a chain into a shell', () => {
    const [command] = commandsFor(chain({ name: `x'; reboot; '\u001b[2J` }), 'antrea-gw0');
    expect(command).toBe(`nft insert rule inet site 'x?; reboot; ??[2J' iifname antrea-gw0 accept`);
  });
});

describe('openChains', () => {
  it('puts rules in front, and only if there are none', () => {
    const open = ['iifname', 'oifname'].map((key) => ({
      rule: { comment: 'seine', expr: [{ match: { left: { meta: { key } }, right: 'antrea-gw0' } }, { accept: null }] },
    }));
    const fake = nft({ 'list chain ip filter FORWARD': open, 'list chain inet site forward': open.slice(1) });
    expect(openChains(fake, [chain({ family: 'ip', table: 'filter', name: 'FORWARD' }), chain({})], 'antrea-gw0')).toBe(1);
    expect(fake.reported.join('\n').split('\n')).toEqual([
      'insert rule inet site forward iifname "antrea-gw0" accept comment "seine"',
      'insert rule inet site forward oifname "antrea-gw0" accept comment "seine"',
    ]);
    expect(openChains(fake, [], 'antrea-gw0')).toBe(0);
  });
});
