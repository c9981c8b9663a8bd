import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ConvergeLab, until } from '../support/converge-lab.ts';
import { EncryptedLab } from '../support/encrypted-lab.ts';

/** Ruleset that drops the encrypted packets that a node receives. */
const blocked = 'table inet blocked { chain input { type filter hook input priority 0; udp dport 51820 drop; }; }';

/** Changes of encryption for which the agents wait: the announcement of a key, the end of a device. */
describe('nodes that encrypt', () => {
  let encrypted: EncryptedLab;
  let lab: ConvergeLab;

  beforeAll(async () => {
    encrypted = await EncryptedLab.start();
    lab = encrypted.lab;
  });
  afterAll(async () => {
    await encrypted?.remove();
  });

  it('replace the key of one, peers first', async () => {
    const [before, peer] = [await encrypted.keyOf(1), await encrypted.keyOf(2)];
    const { streams, clear } = await encrypted.during(async () => {
      expect(await encrypted.rotateKey(1)).toBe(200);
      await until(
        async () => (await encrypted.keyOf(1)) !== before,
        60_000,
        () => 'the key has not changed',
      );
      await encrypted.untilReached();
    });
    expect(clear).toBe(0);
    expect([await encrypted.keyOf(2), await encrypted.peerKeys(2)]).toEqual([peer, [await encrypted.keyOf(1)]]);
    console.log(
      `a key was replaced: lost ${streams.map(({ lost }) => lost).join(' and ')} of ${streams.map(({ sent }) => sent).join(' and ')}`,
    );
  });

  it('send as before while the UDP port is blocked, and begin to encrypt once it is open', async () => {
    await encrypted.configure(1, 'allow');
    await encrypted.configure(2, 'none');
    await encrypted.ended(2);
    await lab.exec(1, 'nft', blocked);
    await encrypted.configure(2, 'allow');
    await until(
      async () => (await lab.metrics(1)).get('wireguard_peers{handshake="none"}') === 1,
      20_000,
      () => 'node 1 has no peer without a handshake',
    );
    const { clear } = await encrypted.during(async () => {
      expect(await encrypted.routesOver(1, 'antrea-wg0')).toBe('');
      await lab.exec(1, 'nft', 'delete', 'table', 'inet', 'blocked');
      await until(
        async () => (await encrypted.routesOver(1, 'antrea-wg0')) !== '',
        20_000,
        () => 'node 1 has no route over antrea-wg0',
      );
      expect(await encrypted.isAnswered(1)).toBe(true); // or packets would wait for a handshake
      await encrypted.established();
    });
    expect(clear).toBeGreaterThan(0); // of the tunnel, at the beginning
    expect((await lab.metrics(1)).get('wireguard_peers{handshake="recent"}')).toBe(1);
  });
});
