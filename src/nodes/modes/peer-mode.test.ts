import { describe, expect, it } from 'vitest';
import { parseIp } from '../../base/net/ip.ts';
import { type ModeSettings, type PeerEncryption, type PeerMode, type PeerPathFacts, selectPeerMode } from './peer-mode.ts';

const address = parseIp('192.168.77.2');
const off = { state: 'off' } as const;
const onLink: PeerPathFacts = {
  encryption: off,
  address,
  announces: true,
  isExpected: true,
  link: 'eth0',
  isListed: false,
  echo: 'answered',
};
const hybrid: ModeSettings = { encapMode: 'hybrid', directRoutes: 'auto', verifyDirect: true };
const noEncap: ModeSettings = { ...hybrid, encapMode: 'noEncap' };
const words = (mode: PeerMode): string =>
  `${mode.mode} ${mode.reason}${mode.mode !== 'tunnel' && mode.path.hop ? ` by ${mode.path.hop.dev}` : ''}`;

describe('the mode of a peer', () => {
  it.each<[string, ModeSettings, Partial<PeerPathFacts>, string]>([
    ['encap', { ...hybrid, encapMode: 'encap' }, {}, 'tunnel configured'],
    ['noEncap, on the link', noEncap, {}, 'direct onLink by eth0'],
    ['noEncap, behind a router', noEncap, { link: undefined }, 'direct routedByNetwork'],
    ['noEncap, without routes', { ...noEncap, directRoutes: 'none' }, {}, 'direct onLink'],
    ['noEncap, a lost echo', noEncap, { echo: 'lost' }, 'direct onLink by eth0'],
    ['noEncap, no address of the family', noEncap, { address: undefined }, 'tunnel noAddress'],
    ['noEncap, a peer of an earlier release', noEncap, { announces: false }, 'tunnel notAnnounced'],
    ['noEncap, a moment after the own announcement', noEncap, { isExpected: false }, 'tunnel announcing'],
    ['hybrid, on the link', hybrid, {}, 'direct onLink by eth0'],
    ['hybrid, before the first answer', hybrid, { echo: 'unknown' }, 'tunnel notVerified'],
    ['hybrid, a network that drops pods’ addresses', hybrid, { echo: 'lost' }, 'tunnel echoLost'],
    ['hybrid, not verified as configured', { ...hybrid, verifyDirect: false }, { echo: 'unknown' }, 'direct onLink by eth0'],
    ['hybrid, behind a router', hybrid, { link: undefined }, 'tunnel otherSubnet'],
    ['hybrid, behind a router and listed', hybrid, { link: undefined, isListed: true }, 'direct listed'],
    ['hybrid, listed and silent', hybrid, { link: undefined, isListed: true, echo: 'lost' }, 'tunnel echoLost'],
    ['hybrid, a peer of an earlier release', hybrid, { announces: false }, 'tunnel notAnnounced'],
    ['encryption', noEncap, { encryption: { state: 'encrypted', device: 'antrea-wg0' } }, 'wireguard encrypted by antrea-wg0'],
    ['encryption, no key', hybrid, { encryption: { state: 'noKey', otherwise: 'drop' } }, 'blocked noKey'],
    ['encryption, keys a moment old', hybrid, { encryption: { state: 'establishing', otherwise: 'drop' } }, 'blocked establishing'],
    ['encryption, no key and allowed', hybrid, { encryption: { state: 'noKey', otherwise: 'allow' } }, 'direct onLink by eth0'],
  ])('%s', (_, settings, facts, expected) => {
    expect(words(selectPeerMode(settings, { ...onLink, ...facts }))).toBe(expected);
  });

  it('is direct in no combination for a peer that does not announce it, has no address, or in encap', () => {
    const modes = combinations().map(({ settings, facts }) => ({ settings, facts, selected: selectPeerMode(settings, facts) }));
    const direct = modes.filter(({ selected }) => selected.mode === 'direct');
    expect(modes).toHaveLength(1152);
    const isImpossible = ({ settings, facts }: (typeof modes)[number]): boolean =>
      settings.encapMode === 'encap' || !facts.announces || !facts.isExpected || !facts.address;
    expect(direct.filter(isImpossible)).toEqual([]);
    const untested = direct.filter(
      ({ settings, facts }) => settings.encapMode === 'hybrid' && settings.verifyDirect && facts.echo !== 'answered',
    );
    expect(untested).toEqual([]);
    for (const { settings, facts, selected } of direct) {
      const hop = selected.mode === 'direct' ? selected.path.hop : undefined;
      expect(hop?.dev).toBe(settings.directRoutes === 'auto' ? facts.link : undefined);
    }
  });
});

it('sends nothing without encryption to a peer that has to be encrypted, in any combination', () => {
  const encryptions: readonly PeerEncryption[] = [
    { state: 'encrypted', device: 'antrea-wg0' },
    { state: 'noKey', otherwise: 'drop' },
    { state: 'establishing', otherwise: 'drop' },
  ];
  for (const { settings, facts } of combinations())
    for (const encryption of encryptions) {
      const selected = selectPeerMode(settings, { ...facts, encryption });
      expect(selected).toMatchObject(
        encryption.state === 'encrypted' ? { mode: 'wireguard', path: { hop: { dev: 'antrea-wg0' } } } : { mode: 'blocked', path: {} },
      );
    }
});

function combinations(): readonly { readonly settings: ModeSettings; readonly facts: PeerPathFacts }[] {
  const booleans = [true, false];
  return (['encap', 'noEncap', 'hybrid'] as const).flatMap((encapMode) =>
    (['auto', 'none'] as const).flatMap((directRoutes) =>
      booleans.flatMap((verifyDirect) =>
        [address, undefined].flatMap((at) =>
          [
            [true, true],
            [true, false],
            [false, true],
            [false, false],
          ].flatMap(([announces = false, isExpected = false]) =>
            ['eth0', undefined].flatMap((link) =>
              booleans.flatMap((isListed) =>
                (['answered', 'lost', 'unknown'] as const).map((echo) => ({
                  settings: { encapMode, directRoutes, verifyDirect },
                  facts: { encryption: off, address: at, announces, isExpected, link, isListed, echo },
                })),
              ),
            ),
          ),
        ),
      ),
    ),
  );
}
