import { describe, expect, it } from 'vitest';
import { exampleNode } from '../../../test/support/example-node.ts';
import { type Family, parseCidr, parseIp } from '../../base/net/ip.ts';
import type { DirectPath } from '../../dataplane/compile/compile-direct.ts';
import { compilePeer, type PeerIntent, tunnelledNetworks } from '../../dataplane/compile/compile-peer.ts';
import { changeSteps, type PeerEntries } from './change-steps.ts';

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
  'routed by the network': { ipv4: {}, ipv6: {} },
  'direct by another interface': moved,
  'direct in IPv4': { ipv4: hops.ipv4 },
  'direct in IPv6': { ipv6: hops.ipv6 },
};
const entriesIn = (direct: PeerIntent['direct']): PeerEntries => {
  const intent = { ...peer, ...(direct ? { direct } : {}) };
  const tunnelled = tunnelledNetworks(intent, exampleNode);
  const others = peer.podCidrs.filter(({ family }) => direct?.[family]);
  const { flows, routes } = compilePeer(intent, exampleNode);
  return { flows: () => flows, routes, sends: direct ? { direct } : {}, tunnelled, direct: others };
};
const changes = Object.keys(modes).flatMap((from) => Object.keys(modes).map((to) => [from, to] as const));

/** Families for which the bridge passes packets to the gateway. */
const passed = ({ flows }: PeerEntries): readonly string[] =>
  flows()
    .filter(({ steps }) => steps.some((step) => step.do === 'load' && step.mark.field === 'direct'))
    .map(({ match }) => (match.ipDst ? match.ipDst.text : ''));
/** Networks for which the kernel has a route to the bridge: packets that the bridge passes to the gateway would return. */
const returned = ({ tunnelled, routes }: PeerEntries): readonly string[] => {
  const others = new Set(routes.map(({ destination }) => destination.text));
  return tunnelled.map(({ text }) => text).filter((text) => !others.has(text));
};
/** Networks that the kernel sends to a next hop in both modes, or in one. */
const hopsOf = ({ routes }: PeerEntries): readonly string[] =>
  routes.flatMap(({ destination, dev }) => (dev === 'antrea-gw0' ? [] : destination.text));

describe('a change of a peer’s mode', () => {
  it.each(changes)('from %s to %s has no route to the bridge for whatever the bridge passes to the gateway, at each step', (from, to) => {
    const [before, after] = [entriesIn(modes[from]), entriesIn(modes[to])];
    const steps = changeSteps(before, after);
    expect(steps.at(-1)).toEqual(after);
    const needsHop = new Set<string>([from, to].includes('routed by the network') ? [] : Object.values(networks));
    let present = before;
    for (const step of steps) {
      // Bridge and kernel apply one step at different times.
      for (const [flows, routes] of [
        [present, step],
        [step, present],
        [step, step],
      ] as const) {
        const sent = passed(flows);
        expect(returned(routes).filter((network) => sent.includes(network))).toEqual([]);
        expect(hopsOf(routes)).toEqual(expect.arrayContaining(sent.filter((network) => needsHop.has(network))));
        expect(flows.direct.map(({ text }) => text)).toEqual(expect.arrayContaining([...sent]));
      }
      present = step;
    }
  });

  it('can be replaced at any step, applied or not, by any other', () => {
    for (const [from, to] of changes)
      for (const step of changeSteps(entriesIn(modes[from]), entriesIn(modes[to])))
        for (const last of Object.keys(modes)) {
          const [next = step] = changeSteps(step, entriesIn(modes[last]));
          // The bridge may still have the flows of any step up to this one.
          const mayBeSent = step.direct.map(({ text }) => text);
          if (next !== step)
            expect(
              returned(next).filter((network) => mayBeSent.includes(network)),
              `${from} → ${to} → ${last}`,
            ).toEqual([]);
        }
  });

  it('takes two steps to become direct, two to return, and one if only the interface differs', () => {
    const count = (from: string, to: string) => changeSteps(entriesIn(modes[from]), entriesIn(modes[to])).length;
    expect([count('tunnel', 'direct'), count('direct', 'tunnel'), count('tunnel', 'tunnel')]).toEqual([2, 2, 1]);
    expect(count('direct in IPv4', 'direct in IPv6')).toBe(3);
  });
});
