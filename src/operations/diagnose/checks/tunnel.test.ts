import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { EchoOutcome } from '../../../netlink/packets/icmp-echo.ts';
import { largestAnswered, reaches } from './echo.ts';
import { choose } from './tunnel.ts';
import { assessPeer, type PeerFacts } from './tunnel-text.ts';

const never = new AbortController().signal;

/** Path that carries packets up to a size. */
function path(most: number, losesFirst = 0) {
  const asked: number[] = [];
  const ask = async (bytes: number): Promise<EchoOutcome> => {
    asked.push(bytes);
    return bytes <= most && asked.length > losesFirst ? 'answered' : 'silent';
  };
  return { asked, echo: { ask } };
}

describe('the longest packet', () => {
  it('is the one that pods send, with one probe, if all is well', async () => {
    const { asked, echo } = path(1_450);
    expect(await largestAnswered(echo, 1_450, never)).toBe(1_450);
    expect(asked).toEqual([1_450]);
  });

  it('is found to the byte, with few probes', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 100, max: 8_999 }), async (most) => {
        const { asked, echo } = path(most);
        expect(await largestAnswered(echo, 9_000, never)).toBe(most);
        expect(asked.length).toBeLessThan(35);
      }),
    );
  });

  it('is probed again when an answer was lost', async () => {
    expect(await reaches(path(100, 2).echo, {}, never)).toBe('answered');
    expect(await reaches(path(100, 3).echo, {}, never)).toBe('silent');
  });
});

describe('probed peers', () => {
  const nodes = Array.from({ length: 50 }, (_, at) => ({ name: `n${at}` }));
  it('are all peers if they are few, else a random sample, or the named one', () => {
    expect(choose(nodes, { most: 50 })).toEqual(nodes);
    expect(new Set(choose(nodes, { most: 16 })).size).toBe(16);
    expect(choose(nodes, { most: 2 }, () => 0)).toEqual(nodes.slice(0, 2));
    expect(choose(nodes, { name: 'n7' })).toEqual([{ name: 'n7' }]);
    expect(choose(nodes, { name: 'stranger' })).toEqual([]);
  });
});

describe('the finding about a peer', () => {
  const way = { family: 'ipv4', to: '10.10.4.1', echo: 'answered', largest: 1_450 } as const;
  const fine: PeerFacts = {
    name: 'node-2',
    ways: [way, { ...way, family: 'ipv6', to: 'fd00::1' }],
    transport: { own: '192.0.2.1', theirs: '192.0.2.2' },
    carrier: 'UDP 6081',
    mtu: 1_450,
    dataPath: 'system',
  };
  const lost = { ...way, echo: 'silent', largest: undefined } as const;
  const said = (change: Partial<PeerFacts>) => assessPeer({ ...fine, ...change });

  it('is empty if all is well', () => expect(assessPeer(fine)).toEqual([]));

  it('names the failing direction, as far as it is known', () => {
    const ways = [lost];
    expect(said({ ways })[0]?.what).toBe('node-2: no answer through the tunnel from IPv4 10.10.4.1');
    expect(said({ ways, received: false, outside: true })[0]?.what).toContain('the direction is not known');
    expect(said({ ways, received: true, outside: true })[0]?.what).toContain('does arrive here: packets from 192.0.2.1 to node-2 are lost');
    expect(said({ ways, received: false, outside: false })[0]?.what).toContain('does not answer outside of the tunnel either');
    expect(said({ ways, received: false, allPeers: true })[0]?.what).toContain('check this node first');
  });

  it('names the port to open, here as well unless packets do arrive here', () => {
    const there = 'iptables -I INPUT -p udp --dport 6081 -s 192.0.2.1 -j ACCEPT';
    expect(said({ ways: [lost], received: true })[0]?.remedy).toMatch(new RegExp(`^${there} +# on node-2`));
    expect(said({ ways: [lost], received: true })[0]?.remedy).not.toContain('on this node');
    expect(said({ ways: [lost], received: false })[0]?.remedy).toContain(
      'on this node: iptables -I INPUT -p udp --dport 6081 -s 192.0.2.2',
    );
    expect(said({ ways: [lost], carrier: 'IP protocol 47' })[0]?.remedy).toContain('-p gre');
    expect(said({ ways: [lost], transport: { own: 'fd00::1', theirs: 'fd00::2' } })[0]?.remedy).toContain('ip6tables');
  });

  it('names the firewall rule that drops every answer, if that explains it', () => {
    const silent = (change: Partial<PeerFacts>) => said({ ways: [lost], silentReplies: ['ipv4'], ...change })[0];
    const [guess, refers] = ['-I INPUT', 'fix firewall.pods first'];
    expect(silent({ received: true })).toMatchObject({
      state: 'unknown',
      what: expect.stringMatching(/firewall\.pods .* drop packets to this node; UDP 6081 from 192\.0\.2\.2 does arrive here$/),
      remedy: expect.stringContaining(refers),
    });
    expect(silent({ received: false, dataPath: 'system' })?.what).toMatch(/drop packets to this node, and may drop UDP 6081 as well$/);
    expect(silent({})?.remedy).toContain(refers); // one of many, which was not inspected in detail
    expect(silent({ received: false, dataPath: 'netdev' })?.remedy).toContain(guess); // tunnel packets pass no firewall there
    expect(silent({ silentReplies: ['ipv6'] })?.remedy).toContain(guess);
    expect(silent({ ways: [lost, { ...lost, family: 'ipv6', to: 'fd00::1' }] })?.remedy).toContain(guess);
    expect(silent({ ways: [{ ...lost, echo: 'noRoute' }] })?.remedy).toBe('seinectl diff; seinectl resume');
  });

  it('names the way by which the peer did not answer, and what it needs', () => {
    const direct = said({ ways: [{ ...lost, mode: 'direct' }], outside: true })[0];
    expect(direct?.what).toBe('node-2: no answer without a tunnel from IPv4 10.10.4.1; 192.0.2.2 answers outside of the tunnel');
    expect(direct?.remedy).toContain('packets with pods’ addresses');
    const encrypted = said({ ways: [{ ...lost, mode: 'wireguard' }], wireGuardPort: 4_000, received: false })[0];
    expect(encrypted?.what).toBe('node-2: no answer through WireGuard from IPv4 10.10.4.1');
    expect(encrypted?.remedy).toMatch(/^iptables -I INPUT -p udp --dport 4000 -s 192\.0\.2\.1 .*192\.0\.2\.2$/);
    expect(said({ ways: [{ ...lost, mode: 'blocked' }] })[0]?.what).toContain('has no WireGuard key');
    const both = said({ ways: [lost, { ...lost, family: 'ipv6', to: 'fd00::1', mode: 'direct' }] });
    expect(both.map(({ what }) => what)).toEqual([
      'node-2: no answer through the tunnel from IPv4 10.10.4.1',
      'node-2: no answer without a tunnel from IPv6 fd00::1',
    ]);
  });

  it('distinguishes one family from both', () => {
    expect(said({ ways: [way, { ...lost, family: 'ipv6', to: 'fd00::1' }] })[0]).toMatchObject({
      what: expect.stringContaining('from IPv6 fd00::1, IPv4 answers'),
      effect: 'pods here and on node-2 do not reach each other by IPv6',
    });
  });

  it('is the MTU that would work', () => {
    const [finding] = said({
      ways: [
        { ...way, largest: 1_350 },
        { ...way, family: 'ipv6', largest: 1_340 },
      ],
    });
    expect(finding).toMatchObject({ check: 'tunnel.mtu', state: 'problem' });
    expect(finding?.remedy).toContain('defaultMTU: 1340');
    expect(said({ ways: [{ ...way, largest: 900 }] })[0]?.remedy).toMatch(/^raise the MTU/);
  });

  it('is a missing route, and a peer without desired entries', () => {
    expect(said({ ways: [{ ...lost, echo: 'noRoute' }] })[0]?.what).toContain('no route to IPv4 10.10.4.1');
    expect(said({ ways: [] })[0]).toMatchObject({ state: 'warning', what: expect.stringContaining('no pod network') });
  });
});
