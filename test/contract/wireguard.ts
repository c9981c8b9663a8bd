import { execFileSync } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { parseCidr, parseIp } from '../../src/base/net/ip.ts';
import type { WantedWireGuardPeer, WireGuard } from '../../src/netlink/wireguard/wireguard.ts';
import { WireGuardPrivateKey } from '../../src/netlink/wireguard/wireguard-key.ts';

/** Two WireGuard devices in two network namespaces, which reach each other at their underlay addresses. */
export interface WireGuardPair {
  readonly ends: readonly [WireGuardEnd, WireGuardEnd];
  close(): Promise<void>;
}

export interface WireGuardEnd {
  readonly wireGuard: WireGuard;
  readonly device: string;
  readonly namespace: string;
  /** Addresses by which the other end reaches this one. */
  readonly underlay: { readonly ipv4: string; readonly ipv6: string };
}

const patience = (): AbortSignal => AbortSignal.timeout(20_000);

/** Contract of every `WireGuard`. `wg` is the second reader. */
export function wireGuardContract(name: string, open: () => Promise<WireGuardPair>): void {
  describe(`${name} as WireGuard`, () => {
    let pair: WireGuardPair;
    const [keyA, keyB] = [WireGuardPrivateKey.generate(), WireGuardPrivateKey.generate()];
    beforeAll(async () => {
      pair = await open();
    });
    afterAll(() => pair?.close());

    const dump = ({ namespace, device }: WireGuardEnd): string[][] =>
      execFileSync('ip', ['netns', 'exec', namespace, 'wg', 'show', device, 'dump'], { encoding: 'utf8' })
        .trim()
        .split('\n')
        .map((line) => line.split('\t'));
    const read = async ({ wireGuard, device }: WireGuardEnd) => wireGuard.read(device, patience());

    it('knows no device that does not exist', async () => {
      const [{ wireGuard }] = pair.ends;
      expect(await wireGuard.read('wg-none', patience())).toBeUndefined();
      await expect(wireGuard.apply('wg-none', { listenPort: 1 }, patience())).rejects.toMatchObject({ code: 'REFUSED' });
    });

    it('shows a new device without a key', async () => {
      expect(await read(pair.ends[0])).toMatchObject({ publicKey: undefined, peers: [] });
    });

    it('sets key and port', async () => {
      const [a] = pair.ends;
      await a.wireGuard.apply(a.device, { privateKey: keyA, listenPort: 51820 }, patience());
      expect(await read(a)).toEqual({ publicKey: keyA.publicKey, listenPort: 51820, peers: [] });
      expect(dump(a)[0]?.slice(0, 3)).toEqual([keyA.toBase64(), keyA.publicKey, '51820']);
    });

    it('puts, changes and removes peers', async () => {
      const [a] = pair.ends;
      const peers = Array.from({ length: 3 }, (_, index) => peerOf(index));
      await a.wireGuard.apply(a.device, { put: peers }, patience());
      expect(wanted(await read(a))).toEqual(byKey(peers));
      const [first, second, third] = peers as [WantedWireGuardPeer, WantedWireGuardPeer, WantedWireGuardPeer];
      const changed = {
        ...second,
        endpoint: { address: parseIp('fd00:9::9'), port: 4321 },
        allowedNetworks: [parseCidr('10.99.0.0/16')],
        keepaliveSeconds: 0,
      };
      await a.wireGuard.apply(a.device, { put: [changed], remove: [third.publicKey] }, patience());
      expect(wanted(await read(a))).toEqual(byKey([first, changed]));
      expect(
        dump(a)
          .slice(1)
          .map(([key, , endpoint, networks]) => [key, endpoint, networks])
          .toSorted(),
      ).toEqual(
        byKey([first, changed])
          .map(({ publicKey, endpoint: { address, port }, allowedNetworks }) => [
            publicKey,
            `${address.family === 'ipv6' ? `[${address.text}]` : address.text}:${port}`,
            allowedNetworks.map(({ text }) => text).join(','),
          ])
          .toSorted(),
      );
    });

    it('moves a network to the peer that it is put to', async () => {
      const [a] = pair.ends;
      const receiver = { ...peerOf(7), allowedNetworks: peerOf(0).allowedNetworks };
      await a.wireGuard.apply(a.device, { put: [receiver] }, patience());
      const found = (await read(a))?.peers ?? [];
      expect(found.find(({ publicKey }) => publicKey === peerOf(0).publicKey)?.allowedNetworks).toEqual([]);
      expect(found.find(({ publicKey }) => publicKey === receiver.publicKey)?.allowedNetworks).toHaveLength(
        receiver.allowedNetworks.length,
      );
    });

    it('ignores a removal of a peer that is not there', async () => {
      const [a] = pair.ends;
      const before = wanted(await read(a));
      await a.wireGuard.apply(a.device, { remove: [peerOf(99).publicKey] }, patience());
      expect(wanted(await read(a))).toEqual(before);
    });

    it('holds 1,000 peers, one of them with 200 networks, and removes all', async () => {
      const [a] = pair.ends;
      const many = Array.from({ length: 1000 }, (_, index) => peerOf(index));
      const [first, ...rest] = many as [WantedWireGuardPeer, ...WantedWireGuardPeer[]];
      const large = { ...first, allowedNetworks: Array.from({ length: 200 }, (_, index) => parseCidr(`10.200.${index}.0/24`)) };
      await a.wireGuard.apply(a.device, { put: [large, ...rest] }, patience());
      expect(wanted(await read(a))).toEqual(byKey([large, ...rest]));
      await a.wireGuard.apply(a.device, { remove: many.map(({ publicKey }) => publicKey) }, patience());
      expect((await read(a))?.peers).toEqual([]);
    });

    it('completes a handshake with a peer to which no other packet is sent', async () => {
      const keyOf = new Map([
        [pair.ends[0], keyA],
        [pair.ends[1], keyB],
      ]);
      for (const end of pair.ends) {
        const other = pair.ends[0] === end ? pair.ends[1] : pair.ends[0];
        const peer = { publicKey: keyOf.get(other)?.publicKey ?? keyA.publicKey, endpoint: endpointOf(other, 'ipv4'), allowedNetworks: [] };
        execFileSync('ip', ['-n', end.namespace, 'link', 'set', end.device, 'up']);
        await end.wireGuard.apply(end.device, { privateKey: keyOf.get(end) ?? keyA, listenPort: 51820 }, patience());
        await end.wireGuard.apply(end.device, { put: [{ ...peer, keepaliveSeconds: 25 }] }, patience());
      }
      for (const end of pair.ends)
        await vi.waitFor(async () => expect((await read(end))?.peers[0]?.handshakeAt).toBeDefined(), { timeout: 20_000, interval: 100 });
    });

    describe.each(['ipv4', 'ipv6'] as const)('over %s', (family) => {
      it('carries packets between two devices, and shows handshake and bytes', async () => {
        const [a, b] = pair.ends;
        const overlay = (end: WireGuardEnd): string => (end === a ? '192.0.2.1' : '192.0.2.2');
        for (const [end, other, key, otherKey] of [
          [a, b, keyA, keyB],
          [b, a, keyB, keyA],
        ] as const) {
          const peer: WantedWireGuardPeer = {
            publicKey: otherKey.publicKey,
            endpoint: endpointOf(other, family),
            allowedNetworks: [parseCidr(`${overlay(other)}/32`)],
          };
          await end.wireGuard.apply(end.device, { privateKey: key, listenPort: 51820, remove: [peer.publicKey] }, patience());
          await end.wireGuard.apply(end.device, { put: [peer] }, patience());
          const inside = ['-n', end.namespace];
          execFileSync('ip', [...inside, 'address', 'replace', `${overlay(end)}/24`, 'dev', end.device]);
          execFileSync('ip', [...inside, 'link', 'set', end.device, 'up']);
        }
        execFileSync('ip', ['netns', 'exec', a.namespace, 'ping', '-c', '3', '-i', '0.2', '-W', '10', overlay(b)]);
        const [peer] = (await read(a))?.peers ?? [];
        expect(peer?.handshakeAt).toBeGreaterThan(Date.now() - 60_000);
        expect(peer?.receivedBytes).toBeGreaterThan(0);
        expect(peer?.sentBytes).toBeGreaterThan(0);
        expect(peer?.endpoint?.address.text).toBe(b.underlay[family]);
      });
    });

    it('stops when its caller stops waiting', async () => {
      const [{ wireGuard, device }] = pair.ends;
      await expect(wireGuard.read(device, AbortSignal.abort())).rejects.toMatchObject({ code: 'CANCELLED' });
    });
  });
}

function endpointOf({ underlay }: WireGuardEnd, family: 'ipv4' | 'ipv6'): WantedWireGuardPeer['endpoint'] {
  return { address: parseIp(underlay[family]), port: 51820 };
}

const keys = new Map<number, WireGuardPrivateKey>();

/** Peer with two networks of each family, and an endpoint of either. */
function peerOf(index: number): WantedWireGuardPeer {
  const key = keys.get(index) ?? WireGuardPrivateKey.generate();
  keys.set(index, key);
  const [high, low] = [index >> 8, index & 255];
  return {
    publicKey: key.publicKey,
    endpoint: { address: parseIp(index % 2 === 0 ? `172.16.${high}.${low}` : `fd00:16::${high}:${low}`), port: 51820 },
    allowedNetworks: [parseCidr(`10.${high}.${low}.0/24`), parseCidr(`fd00:10:${high}:${low}::/64`)],
    keepaliveSeconds: index % 100,
  };
}

function wanted(device: Awaited<ReturnType<WireGuard['read']>>): unknown {
  const peers = device?.peers.map(({ handshakeAt: _, receivedBytes: __, sentBytes: ___, ...peer }) => peer);
  return byKey(peers ?? []);
}

/** Sorts peers by key and networks by text: WireGuard keeps neither order. */
function byKey<T extends { readonly publicKey: string; readonly allowedNetworks: readonly { readonly text: string }[] }>(
  peers: readonly T[],
): T[] {
  return peers
    .map((peer) => ({ ...peer, allowedNetworks: peer.allowedNetworks.toSorted((a, b) => (a.text < b.text ? -1 : 1)) }))
    .toSorted((a, b) => (a.publicKey < b.publicKey ? -1 : 1));
}
