import { execFileSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { type FirewallChange, FirewallEvents } from '../../src/netlink/nftables/firewall-events.ts';
import { Nftables } from '../../src/netlink/nftables/nftables.ts';
import { type Lab, openDescriptors, withNamespaces } from './netlink-fixture.ts';

const nft = (lab: Lab, ...words: readonly string[]) => execFileSync('ip', ['netns', 'exec', lab.name, 'nft', ...words]);
const tablesOf = (change: FirewallChange) => (change.kind === 'tables' ? [...change.tables].toSorted() : change.kind);

it('reports foreign changes, by table, one call for a transaction', () =>
  withNamespaces(2, async (lab, other) => {
    const received: FirewallChange[] = [];
    const events = FirewallEvents.open({ namespace: lab.namespace }, (change) => received.push(change));
    try {
      nft(other, 'add table inet elsewhere');
      nft(lab, 'add table inet seine; add table ip foreign');
      nft(lab, 'add map inet seine services { type ipv4_addr : ipv4_addr; }');
      nft(lab, 'add element inet seine services { 10.96.0.1 : 10.0.0.1 }');
      nft(lab, 'add chain inet seine pre; add rule inet seine pre counter accept');
      nft(lab, 'flush ruleset');
      const expected = [['foreign', 'seine'], ['seine'], ['seine'], ['seine'], ['foreign', 'seine']];
      await expect.poll(() => received.map(tablesOf)).toEqual(expected);
    } finally {
      events.close();
    }
  }));

it('does not report changes of this process, in any thread', () =>
  withNamespaces(1, async (lab) => {
    const received: FirewallChange[] = [];
    const events = FirewallEvents.open({ namespace: lab.namespace }, (change) => received.push(change));
    const ours = Nftables.open(lab.namespace);
    try {
      ours.run('add table inet seine');
      nft(lab, 'add table inet last');
      await expect.poll(() => received.map(tablesOf)).toEqual([['last']]);
    } finally {
      ours.close();
      events.close();
    }
  }));

it('leaves no descriptor open', () =>
  withNamespaces(1, ({ namespace }) => {
    const before = openDescriptors();
    FirewallEvents.open({ namespace }, () => {}).close();
    expect(openDescriptors()).toBe(before);
  }));
