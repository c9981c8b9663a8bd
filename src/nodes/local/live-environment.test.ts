import { describe, expect, it } from 'vitest';
import { parseConfig } from '../../agent/config/agent-config.ts';
import { silentLog } from '../../base/log/log.ts';
import { parseCidr, parseIp } from '../../base/net/ip.ts';
import type { NodeEnvironment } from '../../dataplane/compile/environment.ts';
import { ReplicaStore } from '../../kubernetes/client/replica/replica.ts';
import type { LiveSettings } from '../../kubernetes/resources/live-settings.ts';
import type { Node } from '../../kubernetes/resources/node.ts';
import { LiveEnvironment } from './live-environment.ts';

const node: Node = { name: 'n1', uid: 'u', podCidrs: ['10.10.0.0/22'], internalIps: ['192.168.77.1'], deleting: false };

function setUp(config = '') {
  const nodes = new ReplicaStore<Node>();
  let interfaces = [{ name: 'eth0', mtu: 1500, addresses: [parseIp('192.168.77.1')] }];
  let version = 10;
  const become = (change: Partial<Node>): void => {
    nodes.put('n1', String((version += 10)), { ...node, ...change });
    nodes.flush();
  };
  let localAddresses = [parseIp('192.168.77.1')];
  become({});
  let settings: LiveSettings | undefined;
  const live = new LiveEnvironment({
    config: parseConfig(config, { NODE_NAME: 'n1' }),
    nodes,
    interfaces: () => interfaces,
    localAddresses: () => localAddresses,
    liveSettings: () => settings,
    log: silentLog,
  });
  const seen: NodeEnvironment[] = [];
  live.subscribe((now) => seen.push(now));
  const bind = (...texts: readonly string[]): void => void (localAddresses = texts.map(parseIp));
  return {
    nodes,
    live,
    seen,
    become,
    bind,
    ofAll: (those: LiveSettings | undefined) => void (settings = those),
    wire: (mtu: number, ip: string) => (interfaces = [{ name: 'eth0', mtu, addresses: [parseIp(ip)] }]),
  };
}

describe('LiveEnvironment', () => {
  it('notifies no subscriber without a change', () => {
    const t = setUp();
    t.become({ internalIps: ['192.168.77.1', '203.0.113.9'] });
    t.live.look();
    expect(t.seen).toEqual([]);
  });

  it('follows the MTU of the transport, and its address once the Node object has it', () => {
    const t = setUp();
    t.wire(1400, '192.168.77.1');
    t.live.look();
    expect(t.live.current.gateway.mtu).toBe(1350);
    t.wire(1400, '192.168.77.9');
    t.live.look();
    expect(t.live.problem).toContain('no transport interface with address 192.168.77.1');
    expect(t.live.current.transport.map(({ text }) => text)).toEqual(['192.168.77.1']);
    t.become({ internalIps: ['192.168.77.9'] });
    t.live.look();
    expect(t.live.problem).toBeUndefined();
    expect(t.seen.at(-1)?.transport.map(({ text }) => text)).toEqual(['192.168.77.9']);
  });

  it("follows the node's further addresses", () => {
    const t = setUp();
    t.bind('169.254.20.10', '192.168.77.1');
    t.live.look();
    t.live.look();
    t.bind('192.168.77.1');
    t.live.look();
    expect(t.seen.map(({ localAddresses }) => localAddresses?.map(({ text }) => text))).toEqual([
      ['169.254.20.10', '192.168.77.1'],
      ['192.168.77.1'],
    ]);
  });

  it('keeps a previous pod network until its last pod is deleted', () => {
    const t = setUp();
    let pods = [parseCidr('10.10.0.0/22')];
    t.live.countPods(() => pods);
    expect(t.seen).toEqual([]);
    t.become({ podCidrs: ['10.20.0.0/22'] });
    t.live.look();
    const { current } = t.live;
    expect(current.podCidrs.map(({ text }) => text)).toEqual(['10.20.0.0/22']);
    expect(current.formerPodCidrs?.map(({ text }) => text)).toEqual(['10.10.0.0/22']);
    expect(current.gateway.addresses.map(({ text }) => text)).toEqual(['10.20.0.1', '10.10.0.1']);
    pods = [parseCidr('10.20.0.0/22')];
    t.live.look();
    expect(t.live.current.gateway.addresses.map(({ text }) => text)).toEqual(['10.20.0.1']);
  });

  it.each([
    ['is gone', (t: ReturnType<typeof setUp>) => t.nodes.remove('n1', '25')],
    ['has no pod network any more', (t: ReturnType<typeof setUp>) => t.become({ podCidrs: [] })],
    ['is another machine’s', (t: ReturnType<typeof setUp>) => t.become({ internalIps: ['192.168.77.50'] })],
    ['has a pod network that cannot be', (t: ReturnType<typeof setUp>) => t.become({ podCidrs: ['192.168.0.0/16'] })],
  ])('stays what it was while its Node object %s', (_, happen) => {
    const t = setUp();
    const before = t.live.current;
    happen(t);
    t.live.look();
    expect(t.live.problem).toBeDefined();
    expect(t.live.current).toBe(before);
    expect(t.seen).toEqual([]);
    t.become({});
    t.live.look();
    expect(t.live.problem).toBeUndefined();
  });

  it('prefers the policy mode of the annotation to the configured one, which applies without a valid annotation', () => {
    const t = setUp('policy: { mode: audit }');
    const modes = (['enforce', 'off', 'of', undefined] as const).map((policyMode) => {
      t.become(policyMode === undefined ? {} : { policyMode });
      t.live.look();
      return t.live.current.policyMode ?? 'enforce';
    });
    expect(modes).toEqual(['enforce', 'off', 'audit', 'audit']);
    expect(t.seen).toHaveLength(3);
  });

  it('prefers the answer to denied pods of the annotation to that of all nodes, and that to the configured one', () => {
    const t = setUp('policy: { denied: reject }');
    const answers = (
      [
        [undefined, undefined],
        [undefined, 'drop'],
        ['reject', 'drop'],
        ['refuse', 'drop'],
        ['refuse', 'reset'],
        ['drop', 'reject'],
      ] as const
    ).map(([annotation, all]) => {
      t.ofAll(all && { denied: all });
      t.become(annotation === undefined ? {} : { denied: annotation });
      t.live.look();
      return t.live.current.denied ?? 'drop';
    });
    expect(answers).toEqual(['reject', 'drop', 'reject', 'drop', 'reject', 'drop']);
  });
});
