import { describe, expect, it } from 'vitest';
import { silentLog } from '../../base/log/log.ts';
import { type Ip, parseIp } from '../../base/net/ip.ts';
import { type Mac, parseMac } from '../../base/net/mac.ts';
import { ifIndex } from '../../netlink/interface-name.ts';
import type { Neighbour } from '../../netlink/routing/neighbours.ts';
import { TunnelAddresses, tunnelAddresses } from './tunnel-addresses.ts';
import { type ResolvedHop, TunnelNeighbours, type TunnelNextHop } from './tunnel-neighbours.ts';

const link = ifIndex(7);
const signal = new AbortController().signal;
const [oldMac, newMac] = [parseMac('0e:00:00:00:00:01'), parseMac('0e:00:00:00:00:02')];
const router = parseIp('192.0.2.254');
const onLink = (address: Ip): TunnelNextHop => ({ link, address });

/** Kernel whose neighbours answer according to `owners`, one round after the query, and an Open vSwitch that remembers its settings. */
function scene({
  addresses,
  nextHopOf = onLink,
}: {
  readonly addresses: readonly Ip[];
  readonly nextHopOf?: (ip: Ip) => TunnelNextHop | undefined;
}) {
  const owners = new Map<string, Mac>();
  const table = new Map<string, Neighbour>();
  const cache = new Map<string, Mac>();
  const asked: string[] = [];
  let nowMs = 0;
  let probesLeft = 0;
  const set = (address: Ip, state: Neighbour['state'], mac: Mac | undefined) =>
    table.set(address.text, { link, address, mac, state, protocol: 0 });
  const neighbours = new TunnelNeighbours({
    addresses: () => addresses,
    nextHopOf,
    list: async () => [...table.values()],
    verify: ({ address }) => {
      asked.push(`verify ${address.text}`);
      probesLeft = 3;
      set(address, 'probe', table.get(address.text)?.mac);
    },
    resolve: ({ address }) => {
      asked.push(`resolve ${address.text}`);
      set(address, 'incomplete', undefined);
    },
    set: async (hops: readonly ResolvedHop[]) => {
      for (const { address, mac } of hops) cache.set(address.text, mac);
    },
    now: () => nowMs,
    log: silentLog,
  });
  /** Advances the kernel by a second, then runs a round. */
  const second = async (): Promise<void> => {
    nowMs += 1_000;
    for (const { address, state, mac } of table.values()) {
      const owner = owners.get(address.text);
      if (state === 'probe' && owner === mac) set(address, 'reachable', mac);
      else if (state === 'probe' && --probesLeft === 0) set(address, 'failed', undefined);
      else if (state === 'incomplete' && owner !== undefined) set(address, 'reachable', owner);
    }
    await neighbours.round(signal);
  };
  const seconds = async (count: number): Promise<void> => {
    for (let passed = 0; passed < count; passed++) await second();
  };
  return { owners, table, cache, asked, set, seconds };
}

describe.each(['192.0.2.2', '2001:db8::2'])('the neighbour %s of tunnels', (text) => {
  const peer = parseIp(text);

  it('is known with its new Ethernet address within ten seconds, and with the previous one again', async () => {
    const t = scene({ addresses: [peer] });
    for (const mac of [oldMac, newMac, oldMac]) {
      t.owners.set(text, mac);
      await t.seconds(10);
      expect(t.cache.get(text)).toBe(mac);
    }
  });

  it("is never read from the kernel's cache before it was probed", async () => {
    const t = scene({ addresses: [peer] });
    t.set(peer, 'reachable', oldMac);
    await t.seconds(3);
    expect(t.cache).toEqual(new Map());
    t.owners.set(text, newMac);
    await t.seconds(4);
    expect(t.cache.get(text)).toBe(newMac);
  });

  it("is probed again after an hour's absence", async () => {
    const t = scene({ addresses: [peer] });
    await t.seconds(3_600);
    expect(t.cache).toEqual(new Map());
    t.owners.set(text, newMac);
    await t.seconds(9);
    expect(t.cache.get(text)).toBe(newMac);
  });

  it.each(['permanent', 'noArp'] as const)('is left to the operator if its entry is %s', async (state) => {
    const t = scene({ addresses: [peer] });
    t.set(peer, state, oldMac);
    await t.seconds(20);
    expect([t.asked, [...t.cache]]).toEqual([[], []]);
  });
});

it('probes a router once, however many nodes are behind it', async () => {
  const addresses = Array.from({ length: 300 }, (_, index) => parseIp(`198.51.${100 + (index >> 8)}.${index & 0xff}`));
  const t = scene({ addresses, nextHopOf: () => onLink(router) });
  t.owners.set(router.text, oldMac);
  await t.seconds(60);
  expect(t.cache).toEqual(new Map([[router.text, oldMac]]));
  expect(t.asked.length).toBeLessThan(20);
});

it('probes thousands of neighbours in turn, 32 per round', async () => {
  const addresses = Array.from({ length: 1_000 }, (_, index) => parseIp(`10.0.${index >> 8}.${index & 0xff}`));
  const t = scene({ addresses });
  for (const { text } of addresses) t.owners.set(text, oldMac);
  await t.seconds(1);
  expect(t.asked.length).toBe(32);
  await t.seconds(33);
  expect(t.cache.size).toBe(1_000);
});

it('probes no address without a route', async () => {
  const t = scene({ addresses: [parseIp('192.0.2.2')], nextHopOf: () => undefined });
  await t.seconds(10);
  expect(t.asked).toEqual([]);
});

it('probes the tunnel destination address of each node', () => {
  const transport = { ipv4: '192.0.2.1', ipv6: '2001:db8::1' };
  const peers = [{ transport }, { transport: { ipv6: '2001:db8::2' } }, { transport: {} }];
  const texts = (own: readonly string[]) => tunnelAddresses(peers, own.map(parseIp)).map(({ text }) => text);
  expect(texts(['192.0.2.9', '2001:db8::9'])).toEqual(['192.0.2.1', '2001:db8::2']);
  expect(texts(['192.0.2.9'])).toEqual(['192.0.2.1']);
  expect(texts(['2001:db8::9'])).toEqual(['2001:db8::1', '2001:db8::2']);
});

it('reads the nodes again only after one of them or this node changed', () => {
  let [reads, notify] = [0, () => {}];
  const peers = [{ name: 'n2', podCidrs: [], addresses: [], transport: { ipv4: '192.0.2.1' } }];
  const source = {
    peers: () => {
      reads++;
      return peers.values();
    },
    subscribe: (listener: (names: ReadonlySet<string>) => void) => {
      notify = () => listener(new Set(['n2']));
      return () => {};
    },
  };
  const addresses = new TunnelAddresses(source);
  const own = [parseIp('192.0.2.9')];
  expect(addresses.of(own)).toBe(addresses.of(own));
  expect(reads).toBe(1);
  notify();
  addresses.of(own);
  addresses.of([...own]);
  expect(reads).toBe(3);
});
