import { describe, expect, it } from 'vitest';
import { exampleNode } from '../../../test/support/example-node.ts';
import { parseCidr, parseIp } from '../../base/net/ip.ts';
import type { NodeWireGuard } from '../../dataplane/compile/environment.ts';
import type { Peer } from '../../kubernetes/resources/peer-source.ts';
import type { WireGuardDevice } from '../../netlink/wireguard/wireguard.ts';
import { WireGuardPrivateKey, type WireGuardPublicKey } from '../../netlink/wireguard/wireguard-key.ts';
import { Encryption } from './encryption.ts';
import { nextKeyText } from './rotation.ts';

const [key, next] = [WireGuardPrivateKey.generate(), WireGuardPrivateKey.generate()];
const peer = (more: Partial<Peer> = {}): Peer => ({ name: 'n2', podCidrs: [], transport: {}, addresses: [], ...more });

/** Device with one peer. */
const deviceWith = (handshakeAt: number | undefined): WireGuardDevice => ({
  publicKey: undefined,
  listenPort: 51820,
  peers: [
    {
      publicKey: key.publicKey,
      endpoint: undefined,
      allowedNetworks: [],
      keepaliveSeconds: 25,
      handshakeAt,
      receivedBytes: 0,
      sentBytes: 0,
    },
  ],
});

/** Encryption of a node with a clock that the test sets. */
function nodeWith(wireGuard: Partial<NodeWireGuard> = {}, inherited: readonly WireGuardPublicKey[] = []) {
  const clock = { now: 0, announced: undefined as number | undefined };
  const environment = { ...exampleNode, wireGuard: { device: 'antrea-wg0', port: 51820, unencryptedPeers: 'drop', ...wireGuard } as const };
  const encryption = new Encryption({
    environment: () => environment,
    isOwnKey: () => false,
    announcedSince: () => clock.announced,
    inherited: new Set(inherited),
    announced: () => undefined,
    now: () => clock.now,
    monotonic: () => clock.now,
  });
  return { encryption, clock };
}

describe('encryption of what a node sends to a peer', () => {
  it('begins with the first handshake, once both nodes have had the other’s key for two seconds', () => {
    const { encryption, clock } = nodeWith({ unencryptedPeers: 'allow' });
    encryption.note('n2', peer({ wireGuardKey: key.publicKey }));
    expect(encryption.of('n2')).toEqual({ state: 'establishing', otherwise: 'allow' });
    encryption.noteHandshakes(deviceWith(10));
    clock.now = 60_000; // this node’s key has not been written
    expect([encryption.of('n2').state, encryption.awaitsHandshakes()]).toEqual(['establishing', false]);
    expect(encryption.nextChangeIn()).toBeUndefined();
    clock.announced = 60_000;
    expect(encryption.nextChangeIn()).toBe(2_000);
    clock.now = 61_999;
    expect([encryption.of('n2').state, encryption.awaitsHandshakes()]).toEqual(['establishing', false]);
    clock.now = 62_000;
    expect(encryption.of('n2')).toEqual({ state: 'encrypted', device: 'antrea-wg0' });
    expect(encryption.nextChangeIn()).toBeUndefined();
  });

  it('waits for the first handshake as long as it takes where packets are sent without encryption meanwhile', () => {
    const { encryption, clock } = nodeWith({ unencryptedPeers: 'allow' });
    clock.announced = 0;
    encryption.note('n2', peer({ wireGuardKey: key.publicKey }));
    encryption.noteHandshakes(deviceWith(undefined));
    clock.now = 2_000;
    expect([encryption.of('n2').state, encryption.awaitsHandshakes(), encryption.nextChangeIn()]).toEqual(['establishing', true, 250]);
    clock.now = 12_000;
    expect([encryption.of('n2').state, encryption.nextChangeIn()]).toEqual(['establishing', 2_000]);
    encryption.noteHandshakes(deviceWith(12_001));
    expect([encryption.of('n2').state, encryption.awaitsHandshakes()]).toEqual(['encrypted', false]);
    encryption.noteHandshakes(undefined); // the device was deleted: nothing is sent without encryption again
    expect(encryption.of('n2').state).toBe('encrypted');
  });

  it.each([
    ['this', []],
    ['the previous', [key.publicKey]],
  ])('needs another handshake with a peer that had no key meanwhile, if %s agent has seen one', (_, inherited) => {
    const { encryption, clock } = nodeWith({ unencryptedPeers: 'allow' }, inherited);
    clock.announced = 0;
    encryption.note('n2', peer({ wireGuardKey: key.publicKey }));
    encryption.noteHandshakes(deviceWith(10));
    clock.now = 2_000;
    expect(encryption.of('n2').state).toBe('encrypted');
    encryption.note('n2', peer());
    encryption.note('n2', peer({ wireGuardKey: key.publicKey }));
    expect(encryption.of('n2').state).toBe('establishing');
    clock.now = 4_000;
    expect([encryption.of('n2').state, encryption.awaitsHandshakes()]).toEqual(['establishing', true]);
  });

  it('begins without a handshake where packets would be dropped otherwise', () => {
    const { encryption, clock } = nodeWith({ unencryptedPeers: 'drop' });
    clock.announced = 0;
    encryption.note('n2', peer({ wireGuardKey: key.publicKey }));
    clock.now = 2_000;
    expect([encryption.awaitsHandshakes(), encryption.of('n2').state]).toEqual([false, 'encrypted']);
  });

  it('continues at once with the peers with which the previous agent had exchanged packets', () => {
    const { encryption } = nodeWith({}, [key.publicKey]);
    encryption.note('n2', peer({ wireGuardKey: key.publicKey }));
    expect(encryption.of('n2').state).toBe('encrypted');
  });

  it('does not end when the peer has another key, and ends when it has none', () => {
    const { encryption } = nodeWith({ unencryptedPeers: 'allow' }, [key.publicKey]);
    encryption.note('n2', peer({ wireGuardKey: key.publicKey }));
    expect(encryption.of('n2').state).toBe('encrypted');
    encryption.note('n2', peer({ wireGuardKey: next.publicKey }));
    expect(encryption.of('n2').state).toBe('encrypted');
    encryption.note('n2', peer());
    expect(encryption.of('n2')).toEqual({ state: 'noKey', otherwise: 'allow' });
  });

  it('uses the next key of a peer from its time on', () => {
    const { encryption, clock } = nodeWith({}, [key.publicKey]);
    encryption.note('n2', peer({ wireGuardKey: key.publicKey, wireGuardNextKey: nextKeyText({ key: next, at: 30_000 }) }));
    const networks = [parseCidr('10.10.4.0/22')];
    const keyNow = (): string[] => [...encryption.entries('n2', parseIp('192.0.2.2'), networks).keys()];
    expect(keyNow()).toEqual([`peer/${key.publicKey}`]);
    expect(encryption.of('n2').state).toBe('encrypted');
    expect(encryption.nextChangeIn()).toBe(30_000);
    clock.now = 30_000;
    expect(keyNow()).toEqual([`peer/${next.publicKey}`]);
    expect(encryption.of('n2').state).toBe('encrypted');
  });

  it('keeps a peer in the device until packets are sent without encryption, and not if another node has its key', () => {
    const { encryption, clock } = nodeWith({ unencryptedPeers: 'allow' }, [key.publicKey]);
    const keys = (name: string) => [...encryption.entries(name, parseIp('192.0.2.2'), [parseCidr('10.10.4.0/22')]).keys()];
    encryption.note('n2', peer({ wireGuardKey: key.publicKey }));
    encryption.note('n2', peer());
    expect([keys('n2'), encryption.nextChangeIn()]).toEqual([[`peer/${key.publicKey}`], 5_000]);
    encryption.note('n3', peer({ name: 'n3', wireGuardKey: key.publicKey }));
    expect([keys('n2'), keys('n3')]).toEqual([[], [`peer/${key.publicKey}`]]);
    encryption.note('n3', undefined);
    clock.now = 5_000;
    expect(encryption.changedBetween(0, 5_000)).toContain('n2');
    expect([keys('n2'), encryption.changedBetween(0, 5_000)]).toEqual([[], []]);
  });

  it('removes a peer without a key at once where nothing may be sent without encryption', () => {
    const { encryption } = nodeWith({ unencryptedPeers: 'drop' }, [key.publicKey]);
    encryption.note('n2', peer({ wireGuardKey: key.publicKey }));
    encryption.note('n2', peer());
    expect([...encryption.entries('n2', parseIp('192.0.2.2'), []).keys()]).toEqual([]);
  });

  it('sends nothing while encryption ends, and accepts what peers still send', () => {
    const { encryption } = nodeWith({ unencryptedPeers: 'allow', isEnding: true }, [key.publicKey]);
    encryption.note('n2', peer({ wireGuardKey: key.publicKey }));
    expect([encryption.of('n2').state, encryption.accepts('n2')]).toEqual(['off', true]);
  });

  it('names a peer without a key where its packets are dropped', () => {
    for (const [unencryptedPeers, count] of [
      ['drop', 1],
      ['allow', 0],
    ] as const) {
      const { encryption } = nodeWith({ unencryptedPeers });
      encryption.note('n2', peer());
      expect(encryption.objections('n2')).toHaveLength(count);
    }
  });
});
