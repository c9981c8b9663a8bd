import { expect, it } from 'vitest';
import { WireGuardPrivateKey } from '../../netlink/wireguard/wireguard-key.ts';
import { PeerKeys } from './peer-keys.ts';
import { nextKeyText } from './rotation.ts';

const next = WireGuardPrivateKey.generate();
const second = next.publicKey;
const [first, own] = [WireGuardPrivateKey.generate().publicKey, WireGuardPrivateKey.generate().publicKey];
const claimed = (name: string, since: string, wireGuardKey: string | undefined) => ({
  name,
  since,
  ...(wireGuardKey === undefined ? {} : { wireGuardKey }),
});
const open = () => new PeerKeys((key) => key === own);

it('gives a key that two Nodes announce to the older one, in any order of events', () => {
  const older = claimed('z-old', '2026-01-01T00:00:00Z', first);
  const younger = claimed('a-young', '2026-02-01T00:00:00Z', first);
  for (const order of [
    [older, younger],
    [younger, older],
  ]) {
    const all = open();
    for (const peer of order) all.set(peer.name, peer);
    expect([all.keyOf('z-old', 0), all.keyOf('a-young', 0)]).toEqual([first, undefined]);
    expect(all.objection('a-young', 0)).toBe('WireGuard key: node z-old has it, which was there before');
    expect([...all.set('z-old', undefined)]).toEqual(['a-young']);
    expect([all.keyOf('a-young', 0), all.objection('a-young', 0)]).toEqual([first, undefined]);
  }
});

it('does not let a Node that announces the next key of another one have that key', () => {
  const all = open();
  all.set('victim', { ...claimed('victim', '2026-01-01T00:00:00Z', first), wireGuardNextKey: nextKeyText({ key: next, at: 1_000 }) });
  all.set('thief', claimed('thief', '2026-02-01T00:00:00Z', second));
  expect([all.keyOf('victim', 999), all.keyOf('victim', 1_000), all.keyOf('thief', 0)]).toEqual([first, second, undefined]);
  expect([all.nextChange(0), all.nextChange(1_000)]).toEqual([1_000, undefined]);
  expect([all.changedBetween(0, 999), all.changedBetween(999, 1_000), all.changedBetween(1_000, 2_000)]).toEqual([[], ['victim'], []]);
});

it.each([
  ['an invalid key', 'not a key', /^WireGuard key: a WireGuard public key is the base64 of 32 bytes/],
  ['a key of zeros', `${'A'.repeat(43)}=`, /not all zero/],
  ['the key of this node', own, /^WireGuard key: it is the key of this node$/],
  ['no key', undefined, undefined],
])('does not accept %s', (_, key, objection) => {
  const all = open();
  all.set('n2', claimed('n2', '', key));
  expect(all.keyOf('n2', 0)).toBeUndefined();
  if (objection) expect(all.objection('n2', 0)).toMatch(objection);
  else expect(all.objection('n2', 0)).toBeUndefined();
});
