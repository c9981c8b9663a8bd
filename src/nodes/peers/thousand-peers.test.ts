import { expect, it, vi } from 'vitest';
import { exampleNode } from '../../../test/support/example-node.ts';
import { LoopTurns } from '../../base/async/loop-turns.ts';
import { silentLog } from '../../base/log/log.ts';
import type { NodeEnvironment } from '../../dataplane/compile/environment.ts';
import { FakeTarget } from '../../dataplane/reconcile/testing/fake-target.ts';
import type { BridgeKey, BridgeValue } from '../../dataplane/targets/bridge/bridge-entry.ts';
import { NodeState } from '../../dataplane/targets/node-state.ts';
import { fakeTargets } from '../../dataplane/targets/testing/fake-targets.ts';
import { ReplicaStore } from '../../kubernetes/client/replica/replica.ts';
import type { Node } from '../../kubernetes/resources/node.ts';
import { peersFromNodes } from '../../kubernetes/resources/peer-source.ts';
import { WireGuardPrivateKey, type WireGuardPublicKey } from '../../netlink/wireguard/wireguard-key.ts';
import type { ModeSettings } from '../modes/peer-mode.ts';
import { PeerModes } from '../modes/peer-modes.ts';
import { Encryption } from '../wireguard/encryption.ts';
import { nextKeyText } from '../wireguard/rotation.ts';
import { Peers } from './peers.ts';

const count = 1_000;
const parts = ['bridge', 'host', 'firewall', 'wireguard'] as const;
type Changed = Readonly<Record<(typeof parts)[number], number>>;
const silent = { round: () => {}, failure: () => {}, refused: () => {}, drift: () => {}, repaired: () => {} };
const keys: readonly WireGuardPublicKey[] = Array.from({ length: count + 1 }, () => WireGuardPrivateKey.generate().publicKey);

function nodeOf(number: number, more: Partial<Node> = {}): Node {
  const [high, low] = [number >> 8, number & 0xff];
  return {
    name: `n${number}`,
    uid: `u${number}`,
    deleting: false,
    podCidrs: [`100.${64 + high}.${low}.0/24`, `fd00:10:0:${(number + 16).toString(16)}::/64`],
    internalIps: [`192.168.${high + 128}.${low}`, `fd00:77::1:${number.toString(16)}`],
    ...more,
  };
}

/** Agent of a node with a thousand peers, and targets in memory. */
async function agentWith(encapMode: ModeSettings['encapMode'], encrypts: boolean) {
  const nodes = new ReplicaStore<Node>();
  // Flows of peers refer to meters of the node, which this test has not.
  const targets = { ...fakeTargets(), bridge: new FakeTarget<BridgeKey, BridgeValue>() };
  const nodeState = new NodeState(targets, silent);
  const clock = { now: 10_000 };
  const environment = (): NodeEnvironment => ({
    ...exampleNode,
    ...(encrypts
      ? { wireGuard: { device: 'antrea-wg0', port: 51_820, unencryptedPeers: 'drop' as const } }
      : { directPackets: true as const }),
  });
  const encryption = new Encryption({
    environment,
    isOwnKey: () => false,
    announcedSince: () => 0,
    inherited: new Set(),
    announced: () => undefined,
    now: () => clock.now,
    monotonic: () => clock.now,
  });
  let lookups = 0;
  const modes = new PeerModes({
    settings: { encapMode, directRoutes: 'auto', verifyDirect: false, directCidrs: [] },
    linkTo: () => {
      lookups++;
      return 'eth0';
    },
    isExpected: () => true,
    accepts: () => !encrypts,
    ...(encrypts && { encryptionOf: (peer: string) => encryption.of(peer) }),
    echoOf: () => 'answered',
    resultOf: () => 'answered',
    now: () => clock.now,
    date: () => new Date(0),
  });
  const peers = new Peers({
    source: peersFromNodes(nodes, 'n0'),
    nodeState,
    environment,
    reserved: () => [],
    dataPath: 'system',
    turns: new LoopTurns(1),
    log: silentLog,
    modes,
    ...(encrypts && { encryption }),
  });
  const stop = new AbortController();
  const running = nodeState.run(stop.signal);
  nodeState.allowRemovals();
  peers.follow();
  let version = 0;
  /** Interfaces of the desired routes to a network. */
  const devicesTo = (network: string): readonly string[] =>
    [...nodeState.host.keys()].flatMap((key) => {
      const entry = nodeState.host.wanted(key);
      return entry?.kind === 'route' && entry.route.destination.text === network ? [entry.route.dev] : [];
    });
  /** Waits until nothing more is desired, and all of it is written. @param holds last step of the change @returns how many entries changed */
  const work = async (change: () => void | Promise<void>, holds: () => void = () => {}): Promise<Changed> => {
    const before = parts.map((part): ReadonlyMap<unknown, unknown> => new Map<unknown, unknown>(targets[part].held));
    await change();
    nodes.flush();
    await vi.waitFor(holds, 30_000);
    for (let last = ''; ; ) {
      await peers.settled();
      for (const part of parts) await nodeState.reconcilers[part].realized(nodeState[part].revision, AbortSignal.timeout(60_000));
      const now = JSON.stringify(parts.map((part) => nodeState[part].revision));
      if (now === last) break;
      last = now;
    }
    const counts = parts.map((part, at) => [part, differing(before[at] ?? new Map(), targets[part].held)] as const);
    return Object.fromEntries(counts) as Changed;
  };
  return {
    clock,
    encryption,
    modes,
    peers,
    lookups: () => lookups,
    devicesTo,
    work,
    put: (node: Node) => nodes.put(node.name, String(++version), node),
    end: async () => {
      stop.abort();
      await running;
    },
  };
}

/** Number of keys whose value differs, or is in one map only. */
function differing(before: ReadonlyMap<unknown, unknown>, after: ReadonlyMap<unknown, unknown>): number {
  return [...new Set([...before.keys(), ...after.keys()])].filter((key) => before.get(key) !== after.get(key)).length;
}

const numbers = Array.from({ length: count }, (_, at) => at + 1);

it('is reached without a tunnel by two routes, and a change of one peer writes nothing for others', { timeout: 120_000 }, async () => {
  const agent = await agentWith('noEncap', false);
  const joined = await agent.work(() => {
    for (const number of numbers) agent.put(nodeOf(number, { peerModes: 'direct' }));
  });
  expect(joined.host).toBe(2 * count);
  expect(agent.modes.counts().find(({ mode, family }) => mode === 'direct' && family === 'ipv6')?.peers).toBe(count);

  const startedMs = performance.now();
  const lookups = agent.lookups();
  const unchanged = await agent.work(() => agent.peers.checkModes());
  await agent.peers.checkModes();
  expect(unchanged).toEqual({ bridge: 0, host: 0, firewall: 0, wireguard: 0 });
  expect(agent.lookups() - lookups).toBe(4 * count); // one a peer and family, in each of two checks
  console.log(`modes of ${count} peers checked twice in ${Math.round(performance.now() - startedMs)} ms, without the kernel’s answers`);

  const [network = ''] = nodeOf(500).podCidrs;
  const changed = await agent.work(
    () => agent.put(nodeOf(500, { peerModes: 'tunnel' })),
    () => expect(agent.devicesTo(network)).toEqual(['antrea-gw0']),
  );
  expect(changed.host).toBeGreaterThan(0);
  expect(changed.host).toBeLessThanOrEqual(8);
  expect(changed.bridge).toBeGreaterThan(0);
  expect(changed.bridge).toBeLessThanOrEqual(40);
  expect([changed.firewall, changed.wireguard]).toEqual([0, 0]);
  console.log(`one peer to the tunnel: ${changed.bridge} changes of flows, ${changed.host} of routes`);
  await agent.end();
});

it('is encrypted with one entry of the device, and the rotation of a key replaces that one', { timeout: 120_000 }, async () => {
  const agent = await agentWith('encap', true);
  const joined = await agent.work(() => {
    for (const number of numbers) agent.put(nodeOf(number, { wireGuardKey: keys[number] ?? '' }));
  });
  expect(joined.wireguard).toBe(count);
  agent.clock.now += 2_000;
  await agent.work(() => agent.peers.checkModes());
  expect(agent.modes.counts().find(({ mode, family }) => mode === 'wireguard' && family === 'ipv4')?.peers).toBe(count);

  const next = { key: WireGuardPrivateKey.generate(), at: agent.clock.now + 30_000 };
  const announced = nodeOf(500, { wireGuardKey: keys[500] ?? '', wireGuardNextKey: nextKeyText(next) });
  expect(await agent.work(() => agent.put(announced))).toMatchObject({ bridge: 0, host: 0, wireguard: 0 });
  const before = agent.clock.now;
  agent.clock.now = next.at;
  const startedMs = performance.now();
  const changed = agent.encryption.changedBetween(before, agent.clock.now);
  expect(changed).toEqual(['n500']);
  expect(await agent.work(() => agent.peers.checkPeers(changed))).toEqual({ bridge: 0, host: 0, firewall: 0, wireguard: 2 });
  console.log(`key of one of ${count} peers replaced in ${Math.round(performance.now() - startedMs)} ms, without the device’s answer`);
  await agent.end();
});
