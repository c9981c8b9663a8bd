import { afterEach, describe, expect, it, vi } from 'vitest';
import { exampleNode, examplePeers } from '../../../test/support/example-node.ts';
import { type Cidr, parseIp } from '../../base/net/ip.ts';
import type { DirectPath } from '../../dataplane/compile/compile-direct.ts';
import type { PeerIntent } from '../../dataplane/compile/compile-peer.ts';
import type { HostKey } from '../../dataplane/targets/host/host-entry.ts';
import { NodeState } from '../../dataplane/targets/node-state.ts';
import { fakeTargets } from '../../dataplane/targets/testing/fake-targets.ts';
import { PeerInstaller } from './peer-installer.ts';

const [tunnel] = examplePeers as readonly [PeerIntent];
const path: DirectPath = { hop: { via: parseIp('192.168.77.2'), dev: 'eth0' } };
const direct: PeerIntent = { ...tunnel, maySendDirectly: true, direct: { ipv4: path } };
const routed: PeerIntent = { ...tunnel, maySendDirectly: true, direct: { ipv4: {} } };
const network = 'route/10.10.4.0/22' satisfies HostKey;

const running: AbortController[] = [];
afterEach(() => {
  for (const one of running.splice(0)) one.abort();
});

function setUp(inheritedPath?: (network: Cidr) => DirectPath | undefined, whenFlowsApplied = () => Promise.resolve()) {
  const targets = fakeTargets();
  const { bridge, host } = targets;
  const events = { round: () => {}, failure: () => {}, refused: () => {}, drift: () => {}, repaired: () => {} };
  const state = new NodeState(targets, events);
  const ending = new AbortController();
  running.push(ending);
  void state.run(ending.signal);
  state.allowRemovals();
  const pause = () => new Promise<void>(() => {});
  const installer = new PeerInstaller({
    nodeState: state,
    environment: () => exampleNode,
    whenFlowsApplied,
    pause,
    ...(inheritedPath ? { inheritedPath } : {}),
  });
  const set = (intent: PeerIntent | undefined): void => {
    installer.set('n2', intent);
    installer.wantRoutes();
  };
  const hopOf = (held = host.held): string => {
    const entry = held.get(network);
    return entry?.kind === 'route' ? entry.route.dev : 'none';
  };
  const sendsDirectly = (): boolean => installer.sendsOf('n2').direct !== undefined;
  const settled = async () => {
    const { signal } = ending;
    await state.reconcilers.bridge.realized(state.bridge.revision, signal);
    await state.reconcilers.host.realized(state.host.revision, signal);
  };
  return { bridge, host, state, installer, set, hopOf, sendsDirectly, settled };
}

describe('the entries of a peer', () => {
  it('leave the kernel’s route of a previous agent until its flows are removed', async () => {
    let asked = 0;
    const whenFlowsApplied = async (): Promise<void> => void asked++;
    const t = setUp(() => ({ hop: { via: parseIp('192.168.77.2'), dev: 'eth0' } }), whenFlowsApplied);
    const { promise, resolve } = Promise.withResolvers<void>();
    t.installer.previousGone = promise;
    for (const intent of [tunnel, tunnel]) t.set(intent); // peers may be handled again meanwhile
    for (let rounds = 0; rounds < 5; rounds++) {
      await t.settled();
      await new Promise((next) => setImmediate(next)); // steps that wait for nothing are taken
    }
    expect([asked, t.hopOf()]).toEqual([0, 'eth0']);
    resolve();
    await expect.poll(() => t.hopOf()).toBe('antrea-gw0');
    expect(asked).toBe(1);
  });

  it('become direct only after the kernel has the route', async () => {
    const t = setUp();
    t.set(tunnel);
    await t.settled();
    expect([t.hopOf(), t.sendsDirectly()]).toEqual(['antrea-gw0', false]);
    t.host.die();
    t.set(direct);
    await t.state.reconcilers.bridge.roundMade(running[0]?.signal as AbortSignal);
    expect(t.sendsDirectly()).toBe(false);
    t.host.revive();
    t.state.reconcilers.host.recheck();
    await vi.waitFor(() => expect(t.sendsDirectly()).toBe(true));
    expect(t.hopOf()).toBe('eth0');
  });

  it('return to the tunnel only after the bridge has the flows', async () => {
    const t = setUp();
    t.set(direct);
    await vi.waitFor(() => expect(t.sendsDirectly()).toBe(true));
    await t.settled();
    t.bridge.die();
    t.set(tunnel);
    await t.state.reconcilers.host.roundMade(running[0]?.signal as AbortSignal);
    expect([t.hopOf(), t.sendsDirectly()]).toEqual(['eth0', false]);
    t.set(tunnel); // another change of the Node does not skip the wait
    await t.state.reconcilers.host.roundMade(running[0]?.signal as AbortSignal);
    expect(t.hopOf()).toBe('eth0');
    t.bridge.revive();
    t.state.reconcilers.bridge.recheck();
    await vi.waitFor(() => expect(t.hopOf()).toBe('antrea-gw0'));
  });

  it('return to the tunnel only after packets follow the flows', async () => {
    let follow: (() => void) | undefined;
    const t = setUp(undefined, () => new Promise((resolve) => (follow = resolve)));
    t.set(direct);
    await vi.waitFor(() => expect(t.sendsDirectly()).toBe(true));
    await t.settled();
    t.set(tunnel);
    await vi.waitFor(() => expect(follow).toBeDefined());
    await t.settled();
    expect(t.hopOf()).toBe('eth0');
    follow?.();
    await vi.waitFor(() => expect(t.hopOf()).toBe('antrea-gw0'));
  });

  it('stay in the tunnel while another program has the route', async () => {
    const t = setUp();
    t.set(tunnel);
    await t.settled();
    t.host.poison.add(network);
    t.set(direct);
    await vi.waitFor(() => expect(t.installer.refusalOf('n2')).toContain('fake'));
    expect(t.sendsDirectly()).toBe(false);
    t.host.poison.clear();
    t.set(tunnel);
    await t.settled();
    expect(t.installer.refusalOf('n2')).toBeUndefined();
    t.set(direct);
    await vi.waitFor(() => expect(t.sendsDirectly()).toBe(true));
  });

  it('of a network that the underlay routes leave the tunnel only without a route to the bridge', async () => {
    const t = setUp();
    t.set(tunnel);
    await t.settled();
    t.host.die();
    t.set(routed);
    await t.state.reconcilers.bridge.roundMade(running[0]?.signal as AbortSignal);
    expect(t.sendsDirectly()).toBe(false);
    t.host.revive();
    t.state.reconcilers.host.recheck();
    await vi.waitFor(() => expect(t.sendsDirectly()).toBe(true));
    expect(t.hopOf()).toBe('none');
  });

  it('are those of a previous agent first, at a start', () => {
    const inherited = setUp((of) => (of.family === 'ipv4' ? path : undefined));
    inherited.set(direct);
    expect(inherited.sendsDirectly()).toBe(true);
    const withdrawn = setUp((of) => (of.family === 'ipv4' ? path : undefined));
    withdrawn.set(tunnel);
    expect([withdrawn.sendsDirectly(), withdrawn.state.host.wanted(network)]).toMatchObject([false, { route: { dev: 'eth0' } }]);
    const fresh = setUp();
    fresh.set(direct);
    expect([fresh.sendsDirectly(), fresh.state.bridge.size > 0]).toEqual([false, true]);
  });
});
