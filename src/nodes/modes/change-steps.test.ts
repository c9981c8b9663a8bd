import { describe, expect, it } from 'vitest';
import { exampleNode } from '../../../test/support/example-node.ts';
import { type Family, parseCidr, parseIp } from '../../base/net/ip.ts';
import type { DirectPath } from '../../dataplane/compile/compile-direct.ts';
import { compilePeer, type PeerIntent } from '../../dataplane/compile/compile-peer.ts';
import type { Wanted } from '../../dataplane/desired/host-entries.ts';
import { changeSteps } from './change-steps.ts';

const networks = { ipv4: '10.10.4.0/22', ipv6: 'fd00:10:0:1::/64' } as const;
const hops: Readonly<Record<Family, DirectPath>> = {
  ipv4: { hop: { via: parseIp('192.168.77.2'), dev: 'eth0' } },
  ipv6: { hop: { via: parseIp('fd00:77::2'), dev: 'eth0' } },
};
const moved: Readonly<Record<Family, DirectPath>> = {
  ipv4: { hop: { via: parseIp('192.168.77.9'), dev: 'eth1' } },
  ipv6: { hop: { via: parseIp('fd00:77::9'), dev: 'eth1' } },
};
const peer: PeerIntent = {
  name: 'n2',
  podCidrs: Object.values(networks).map(parseCidr),
  transport: [parseIp('192.168.77.2'), parseIp('fd00:77::2')],
  maySendDirectly: true,
};
const modes: Readonly<Record<string, PeerIntent['direct']>> = {
  tunnel: undefined,
  direct: hops,
  'direct by another interface': moved,
  'direct in IPv4': { ipv4: hops.ipv4 },
  'direct in IPv6': { ipv6: hops.ipv6 },
};
const wantedIn = (direct: PeerIntent['direct']): Wanted => compilePeer({ ...peer, ...(direct ? { direct } : {}) }, exampleNode);
const changes = Object.keys(modes).flatMap((from) => Object.keys(modes).map((to) => [from, to] as const));

/** Families for which the bridge passes packets to the gateway. */
const passed = ({ flows }: Wanted): readonly string[] =>
  flows
    .filter(({ steps }) => steps.some((step) => step.do === 'load' && step.mark.field === 'direct'))
    .map(({ match }) => (match.ipDst ? match.ipDst.text : ''));
/** Networks to which the kernel sends without the bridge. */
const routed = ({ routes }: Wanted): readonly string[] =>
  routes.flatMap(({ destination, dev }) => (dev === 'antrea-gw0' ? [] : destination.text));

describe('a change of a peer’s mode', () => {
  it.each(changes)('from %s to %s has a route for whatever the bridge passes to the gateway, at each step', (from, to) => {
    const [before, after] = [wantedIn(modes[from]), wantedIn(modes[to])];
    const steps = changeSteps(before, after);
    expect(steps.at(-1)).toEqual(after);
    let present = before;
    for (const step of steps) {
      // Bridge and kernel apply one step at different times.
      for (const [flows, routes] of [
        [present, step],
        [step, present],
        [step, step],
      ] as const)
        expect(routed(routes)).toEqual(expect.arrayContaining([...passed(flows)]));
      present = step;
    }
  });

  it('takes two steps to become direct, two to return, and one if only the interface differs', () => {
    const count = (from: string, to: string) => changeSteps(wantedIn(modes[from]), wantedIn(modes[to])).length;
    expect([count('tunnel', 'direct'), count('direct', 'tunnel'), count('tunnel', 'tunnel')]).toEqual([2, 2, 1]);
    expect(count('direct in IPv4', 'direct in IPv6')).toBe(3);
  });
});
