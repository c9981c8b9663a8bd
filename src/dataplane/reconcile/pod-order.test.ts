import { afterEach, expect, it } from 'vitest';
import { parseMac } from '../../base/net/mac.ts';
import { nothing } from '../desired/host-entries.ts';
import type { PodLink } from '../desired/pod-link.ts';
import { ownerOf } from '../pipeline/cookie.ts';
import { goto, priority } from '../pipeline/flow.ts';
import { NodeState } from '../targets/node-state.ts';
import { fakeTargets } from '../targets/testing/fake-targets.ts';

const life = new AbortController();
afterEach(() => life.abort());

/** Records when each target is written to, in turns of the event loop. The bridge acknowledges on command. */
class Node {
  readonly written: { readonly part: 'bridge' | 'links'; readonly turn: number }[] = [];
  acknowledge = (): void => {};
  readonly state: NodeState;
  #turn = 0;

  constructor() {
    const targets = fakeTargets();
    const { bridge, links } = targets;
    const [applyToBridge, applyToLinks] = [bridge.apply.bind(bridge), links.apply.bind(links)];
    bridge.apply = async (plan) => {
      this.written.push({ part: 'bridge', turn: this.#turn });
      await new Promise<void>((resolve) => (this.acknowledge = resolve));
      await applyToBridge(plan);
    };
    links.apply = async (plan) => {
      this.written.push({ part: 'links', turn: this.#turn });
      await applyToLinks(plan);
    };
    const events = { round: () => {}, failure: () => {}, refused: () => {}, drift: () => {}, repaired: () => {} };
    this.state = new NodeState(targets, events);
  }

  async start(): Promise<void> {
    void this.state.run(life.signal);
    const { bridge, links } = this.state.reconcilers;
    await Promise.all([bridge.realized(0, life.signal), links.realized(0, life.signal)]);
    const next = (): void => {
      this.#turn++;
      if (!life.signal.aborted) setImmediate(next);
    };
    next();
  }
}

it('creates a lone pod’s interface in the turn that wrote its flows, while OVS installs them', async () => {
  const node = new Node();
  await node.start();
  const flow = { table: 'classify', priority: priority.normal, match: { inPort: 7 }, steps: [goto('spoofGuard')] } as const;
  const link: PodLink = {
    hostName: 'sp-7',
    farName: 'far-7',
    netnsPath: '/run/netns/a',
    podName: 'eth0',
    mac: parseMac('02:00:00:00:00:01'),
    mtu: 1450,
    alias: 'a',
    hostEnd: 'plain',
    checksumOffload: 'keep',
    addresses: [],
    gateways: [],
    routes: [],
  };
  const stages: string[] = [];
  const waits = { plugged: async () => {}, onStage: (stage: string) => void stages.push(stage) };
  const realized = node.state.realizePod(
    ownerOf('pod', 'default', 'a'),
    { wanted: { ...nothing, flows: [flow] }, link },
    waits,
    life.signal,
  );
  await expect.poll(() => node.written.length).toBe(2);
  expect(node.written.map(({ part }) => part)).toEqual(['bridge', 'links']);
  expect(node.written[1]?.turn).toBe(node.written[0]?.turn);
  node.acknowledge();
  await realized;
  expect(stages).toEqual(['interface', 'flows']);
});
