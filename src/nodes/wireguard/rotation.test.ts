import { describe, expect, it } from 'vitest';
import { WireGuardPrivateKey } from '../../netlink/wireguard/wireguard-key.ts';
import { announcedKeys, keyAt, nextKeyText, rotationStep } from './rotation.ts';

const [current, key] = [WireGuardPrivateKey.generate(), WireGuardPrivateKey.generate()];
const at = 1_800_000_000_000;
const next = { key, at };

describe('rotation of a key', () => {
  it('is announced to peers, which change at the announced time', () => {
    const announced = announcedKeys(current.publicKey, nextKeyText(next));
    expect(keyAt(announced, at - 1)).toBe(current.publicKey);
    expect(keyAt(announced, at)).toBe(key.publicKey);
  });

  it('changes the key of the owner after its peers', () => {
    expect(rotationStep({ current, next }, true, at)).toEqual({ do: 'wait', until: at + 100 });
    expect(rotationStep({ current, next }, true, at + 99)).toEqual({ do: 'wait', until: at + 100 });
    expect(rotationStep({ current, next }, true, at + 100)).toEqual({ do: 'change', keys: { current: key } });
    expect(rotationStep({ current: key }, true, at + 100)).toEqual({ do: 'nothing' });
  });

  it('waits for an announcement that the API server has not acknowledged', () => {
    expect(rotationStep({ current, next }, false, at + 60_000)).toEqual({ do: 'waitForAnnouncement' });
  });

  it('never gives owner and peer different keys for longer than 100 ms, whenever the agent of the owner is restarted', () => {
    for (let now = at - 1_000; now <= at + 2_000; now += 10) {
      const step = rotationStep({ current, next }, true, now);
      const ofOwner = step.do === 'change' ? step.keys.current.publicKey : current.publicKey;
      const ofPeer = keyAt(announcedKeys(current.publicKey, nextKeyText(next)), now);
      if (now < at || now >= at + 100) expect(ofOwner).toBe(ofPeer);
    }
  });

  it.each([
    ['no time', key.publicKey],
    ['an invalid time', `${key.publicKey} tomorrow`],
    ['an invalid key', 'AAAA 2027-01-01T00:00:00.000Z'],
    ['more than a key and a time', `${nextKeyText(next)} x`],
    ['nothing', ''],
  ])('is not followed if the announcement has %s', (_, text) => {
    expect(announcedKeys(current.publicKey, text)).toEqual({ current: current.publicKey });
  });

  it('does not accept an invalid present key', () => {
    expect(() => announcedKeys('AAAA', undefined)).toThrow('a WireGuard public key is the base64 of 32 bytes');
  });
});
