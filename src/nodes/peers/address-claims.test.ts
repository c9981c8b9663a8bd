import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cidrOf, ipFromValue, overlaps, parseCidr } from '../../base/net/ip.ts';
import { type AddressClaim, AddressClaims } from './address-claims.ts';

const claim = (node: string, text: string, since: string, use: AddressClaim['use'] = 'pods'): AddressClaim => ({
  node,
  since,
  use,
  range: parseCidr(text),
});
const reserved = [
  { range: parseCidr('10.10.0.0/22'), what: 'this node’s pods', against: 'both' },
  { range: parseCidr('192.168.77.0/24'), what: 'the network of the tunnels', against: 'pods' },
] as const;

describe('AddressClaims', () => {
  it.each([
    ['0.0.0.0/0', 'pods', 'is larger than the network of any node'],
    ['10.0.0.0/8', 'pods', 'overlaps 10.10.0.0/22: this node’s pods'],
    ['10.10.1.0/24', 'pods', 'overlaps 10.10.0.0/22: this node’s pods'],
    ['192.168.77.9/31', 'pods', 'overlaps 192.168.77.0/24: the network of the tunnels'],
    ['10.10.4.0/32', 'pods', 'has no room for a gateway and pods'],
    ['10.10.0.7/32', 'tunnel', 'overlaps 10.10.0.0/22: this node’s pods'],
    ['192.168.77.9/32', 'tunnel', undefined],
    ['10.10.4.0/22', 'pods', undefined],
  ] as const)('reports for %s claiming %s: %s', (text, use, objection) => {
    const claims = new AddressClaims(reserved);
    const one = claim('n2', text, '2026', use);
    claims.set('n2', [one]);
    expect(claims.objection(one)).toBe(objection);
  });

  it('prefers the node that joined first, in any order of events', () => {
    const old = claim('z-old', '10.10.4.0/22', '2026-01-01T00:00:00Z');
    const young = claim('a-young', '10.10.5.0/24', '2026-01-02T00:00:00Z');
    for (const order of [
      [old, young],
      [young, old],
    ]) {
      const claims = new AddressClaims(reserved);
      for (const each of order) claims.set(each.node, [each]);
      expect(claims.objection(old)).toBeUndefined();
      expect(claims.objection(young)).toBe('overlaps 10.10.4.0/22 of node z-old, which was there before');
    }
  });

  it('keeps a tunnel out of other nodes’ pods, and pods out of other nodes’ tunnels', () => {
    const claims = new AddressClaims(reserved);
    const pods = claim('n2', '10.10.4.0/22', '1');
    const tunnel = claim('n3', '10.10.4.9/32', '2', 'tunnel');
    const far = claim('n4', '172.16.0.4/32', '3', 'tunnel');
    const over = claim('n5', '172.16.0.0/24', '4');
    for (const each of [pods, tunnel, far, over]) claims.set(each.node, [each]);
    expect([pods, tunnel, far, over].map((each) => claims.objection(each) !== undefined)).toEqual([false, true, false, true]);
  });

  it('allows two nodes one tunnel address', () => {
    const claims = new AddressClaims(reserved);
    const both = ['n2', 'n3'].map((node) => claim(node, '172.16.0.4/32', '1', 'tunnel'));
    for (const each of both) claims.set(each.node, [each]);
    expect(both.map((each) => claims.objection(each))).toEqual([undefined, undefined]);
  });

  it('names the nodes that a change concerns, and only those that joined later', () => {
    const claims = new AddressClaims(reserved);
    expect(claims.set('n3', [claim('n3', '10.20.0.0/24', '3')])).toEqual(new Set());
    expect(claims.set('n2', [claim('n2', '10.20.0.0/16', '2')])).toEqual(new Set(['n3']));
    expect(claims.set('n4', [claim('n4', '10.20.0.0/16', '4')])).toEqual(new Set());
    expect(claims.set('n2', [])).toEqual(new Set(['n3', 'n4']));
  });

  it('agrees with a complete comparison', () => {
    const range = fc
      .tuple(fc.integer({ min: 0, max: 63 }), fc.integer({ min: 26, max: 32 }))
      .map(([value, length]) => cidrOf(ipFromValue('ipv4', 0x0a14_0000n + BigInt(value)), length));
    const step = fc.record({ node: fc.constantFrom('a', 'b', 'c', 'd', 'e'), ranges: fc.array(range, { maxLength: 2 }) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 20 }), (steps) => {
        const claims = new AddressClaims([]);
        const now = new Map<string, readonly AddressClaim[]>();
        for (const { node, ranges } of steps) {
          const made = ranges
            .filter(({ prefixLength }) => prefixLength < 32)
            .map((each): AddressClaim => ({ node, since: '', use: 'pods', range: each }));
          now.set(node, made);
          claims.set(node, made);
        }
        const all = [...now.values()].flat();
        for (const each of all) {
          const refused = all.some((other) => other.node < each.node && overlaps(other.range, each.range));
          expect(claims.objection(each) !== undefined).toBe(refused);
        }
      }),
    );
  });

  it('does not slow down with the number of nodes', () => {
    const claims = new AddressClaims(reserved);
    const started = performance.now();
    for (let at = 0; at < 5_000; at++) {
      const node = `n${at}`;
      const pods = claim(node, `100.${64 + (at >> 8)}.${at & 255}.0/24`, '1');
      const tunnel = claim(node, `172.16.${at >> 8}.${at & 255}/32`, '1', 'tunnel');
      claims.set(node, [pods, tunnel]);
      expect(claims.objection(pods)).toBeUndefined();
    }
    expect(performance.now() - started).toBeLessThan(5_000);
  });
});
