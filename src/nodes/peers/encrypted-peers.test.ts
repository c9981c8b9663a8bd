import { describe, expect, it, vi } from 'vitest';
import { exampleNode } from '../../../test/support/example-node.ts';
import { LoopTurns } from '../../base/async/loop-turns.ts';
import { silentLog } from '../../base/log/log.ts';
import type { NodeWireGuard } from '../../dataplane/compile/environment.ts';
import { NodeState } from '../../dataplane/targets/node-state.ts';
import { fakeTargets } from '../../dataplane/targets/testing/fake-targets.ts';
import { ReplicaStore } from '../../kubernetes/client/replica/replica.ts';
import type { Node } from '../../kubernetes/resources/node.ts';
import { peersFromNodes } from '../../kubernetes/resources/peer-source.ts';
import { WireGuardPrivateKey } from '../../netlink/wireguard/wireguard-key.ts';
import { PeerModes } from '../modes/peer-modes.ts';
import { Encryption } from '../wireguard/encryption.ts';
import { Peers } from './peers.ts';

const { publicKey } = WireGuardPrivateKey.generate();
const silent = { round: () => {}, failure: () => {}, refused: () => {}, drift: () => {}, repaired: () => {} };

/** Node that encrypts, with one peer and targets that accept everything. */
function nodeWith(unencryptedPeers: NodeWireGuard['unencryptedPeers'], wireGuardKey: string | undefined) {
  const nodes = new ReplicaStore<Node>();
  const targets = fakeTargets();
  const nodeState = new NodeState(targets, silent);
  const clock = { now: 0 };
  const environment = () => ({ ...exampleNode, wireGuard: { device: 'antrea-wg0', port: 51820, unencryptedPeers } });
  const encryption = new Encryption({
    environment,
    isOwnKey: () => false,
    announcedSince: () => 0,
    inherited: new Set(),
    announced: () => undefined,
    now: () => clock.now,
    monotonic: () => clock.now,
  });
  const modes = new PeerModes({
    settings: { encapMode: 'encap', directRoutes: 'auto', verifyDirect: true, directCidrs: [] },
    linkTo: () => undefined,
    isExpected: () => false,
    accepts: () => false,
    encryptionOf: (peer) => encryption.of(peer),
    echoOf: () => 'unknown',
    resultOf: () => 'unknown',
    now: () => clock.now,
    date: () => new Date(clock.now),
  });
  const source = peersFromNodes(nodes, 'n1');
  const common = {
    source,
    nodeState,
    environment,
    reserved: () => [],
    dataPath: 'system',
    turns: new LoopTurns(1),
    log: silentLog,
  } as const;
  const peers = new Peers({ ...common, encryption, modes });
  const put = (key: string | undefined): void => {
    const networks = { podCidrs: ['10.10.4.0/22', 'fd00:10:0:1::/64'], internalIps: ['192.168.77.2'] };
    const { length } = [...nodes.entries()];
    nodes.put('n2', String(length + (key?.length ?? 0)), {
      name: 'n2',
      uid: 'n2',
      deleting: false,
      ...networks,
      ...(key === undefined ? {} : { wireGuardKey: key }),
    });
    nodes.flush();
  };
  put(wireGuardKey);
  peers.follow();
  const stop = new AbortController();
  const running = nodeState.run(stop.signal);
  nodeState.allowRemovals();
  const routes = () =>
    [...(nodeState.reconcilers.host.actual() ?? new Map())].flatMap(([, entry]) =>
      entry.kind === 'route' ? [`${entry.route.destination.text} ${entry.route.kind ?? entry.route.dev}`] : [],
    );
  return {
    peers,
    clock,
    put,
    routes: () => routes().toSorted(),
    clear: () => [...nodeState.firewall.keys()].filter((key) => key.startsWith('element/seine-clear/')),
    accepted: () => [...nodeState.wireguard.keys()],
    /** Reports whether the bridge sends to the tunnel, and accepts packets from it. */
    usesTunnel: () => [...nodeState.bridge.keys()].some((key) => String(key).includes('tun_src')),
    end: async () => {
      stop.abort();
      await running;
    },
  };
}

describe('a peer of a node that encrypts', () => {
  it('is reached through the WireGuard device once it is established, and by a blackhole before that', async () => {
    const node = nodeWith('drop', publicKey);
    await vi.waitFor(() => expect(node.routes()).toContain('10.10.4.0/22 blackhole'));
    expect(node.routes().filter((route) => !route.endsWith('blackhole') && route.startsWith('10.10.4'))).toEqual([]);
    expect(node.accepted()).toEqual([`peer/${publicKey}`]);
    node.clock.now = 2_000;
    await node.peers.checkModes();
    await vi.waitFor(() =>
      expect(node.routes()).toEqual(
        expect.arrayContaining(['10.10.4.0/22 antrea-wg0', '10.10.4.0/22 blackhole', 'fd00:10:0:1::/64 antrea-wg0']),
      ),
    );
    expect(node.clear()).toHaveLength(2);
    await node.end();
  });

  it('is reached by nothing while it has no key', async () => {
    const node = nodeWith('drop', undefined);
    await vi.waitFor(() => expect(node.routes()).toContain('10.10.4.0/22 blackhole'));
    expect(node.accepted()).toEqual([]);
    expect(node.clear()).toHaveLength(2);
    await node.end();
  });

  it('is reached through the tunnel while it has no key, where that is allowed', async () => {
    const node = nodeWith('allow', undefined);
    await vi.waitFor(() => expect(node.routes()).toContain('10.10.4.0/22 antrea-gw0'));
    expect([node.clear(), node.accepted()]).toEqual([[], []]);
    await node.end();
  });
});
