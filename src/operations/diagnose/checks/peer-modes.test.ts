import { describe, expect, it } from 'vitest';
import { modeReasons } from '../../../nodes/modes/peer-mode.ts';
import type { ShownMode } from '../../../nodes/modes/peer-modes.ts';
import { assessModes } from './peer-modes.ts';
import { assessCleartext, assessHandshakes } from './wireguard.ts';

const since = '2026-11-29T12:00:00Z';
const way = (family: ShownMode['family'], mode: ShownMode['mode'], reason: string): ShownMode => ({ family, mode, reason, since });

describe('the finding about modes of peers', () => {
  const direct = way('ipv4', 'direct', modeReasons.onLink);
  const tunnel = way('ipv6', 'tunnel', modeReasons.otherSubnet);

  it('counts peers by family and mode', () => {
    const peers = [
      { name: 'n2', modes: [direct, tunnel] },
      { name: 'n3', modes: [way('ipv4', 'tunnel', modeReasons.otherSubnet), tunnel] },
    ];
    expect(assessModes(peers)).toEqual({ check: 'peers.modes', state: 'ok', what: 'IPv4: 1 direct, 1 tunnel; IPv6: 2 tunnel' });
    expect(assessModes([]).what).toBe('there is no other node');
  });

  it('names peers that are not reached as configured, and blocked ones as a problem', () => {
    const lost = { name: 'n2', modes: [direct, way('ipv6', 'tunnel', modeReasons.echoLost)] };
    expect(assessModes([lost])).toMatchObject({ state: 'warning', what: 'n2 (IPv6): tunnel, echoes without a tunnel are lost' });
    const refused = { name: 'n3', modes: [way('ipv4', 'tunnel', 'a route to 10.10.4.0/22 belongs to another program (protocol bird)')] };
    expect(assessModes([refused])).toMatchObject({ state: 'warning', what: expect.stringContaining('protocol bird') });
    const blocked = Array.from({ length: 7 }, (_, at) => ({ name: `b${at}`, modes: [way('ipv4', 'blocked', modeReasons.noKey)] }));
    expect(assessModes([lost, ...blocked])).toMatchObject({ state: 'problem', what: expect.stringMatching(/b3 .*; and 3 more$/) });
  });
});

describe('the findings about WireGuard', () => {
  const now = 1_000_000;
  const peer = (node: string, ageMs?: number) => ({ node, handshakeAt: ageMs === undefined ? undefined : now - ageMs });

  it('name peers without a handshake of the last three minutes', () => {
    expect(assessHandshakes([peer('n2', 0), peer('n3', 180_000)], now)).toMatchObject({
      state: 'ok',
      what: expect.stringMatching(/^2 peers/),
    });
    expect(assessHandshakes([peer('n2', 0), peer('n3', 200_000), peer('n4')], now)).toMatchObject({
      state: 'problem',
      what: 'n3: the last handshake was 200 s ago; n4: no handshake',
    });
  });

  it('count packets that were not encrypted, and notice a missing table', () => {
    expect(assessCleartext(new Map([['ipv4', 0]])).state).toBe('ok');
    expect(
      assessCleartext(
        new Map([
          ['ipv4', 0],
          ['ipv6', 3],
        ]),
      ),
    ).toMatchObject({ state: 'warning', what: expect.stringContaining('3 (ipv6)') });
    expect(assessCleartext(new Map()).state).toBe('problem');
  });
});
