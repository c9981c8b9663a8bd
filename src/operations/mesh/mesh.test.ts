import { describe, expect, it } from 'vitest';
import { generator } from '../../../test/support/random.ts';
import { parseIp } from '../../base/net/ip.ts';
import type { EchoOutcome } from '../../netlink/packets/icmp-echo.ts';
import { fixedPeers } from './fixed-peers.ts';
import { Mesh } from './mesh.ts';

const namesOf = (count: number): string[] => Array.from({ length: count }, (_, at) => `node-${String(at).padStart(4, '0')}`);

/** Fault of the links of one node. */
type Fault = 'cut' | 'slow' | 'narrow';

interface Simulation {
  readonly nodes: number;
  readonly seed: number;
  readonly families?: readonly ('ipv4' | 'ipv6')[];
  /** Nodes that observe; all others only answer. */
  readonly observers: readonly string[];
}

/** Agents of some nodes of a cluster, with a clock of their own; node `at` has the address 10.x.y.1. */
class MeshCluster {
  readonly names: readonly string[];
  readonly agents = new Map<string, Mesh>();
  readonly noted: string[] = [];
  readonly faults = new Map<string, Fault>();
  nowMs = 0;
  settings = { intervalMs: 10_000, peers: 16 };
  readonly #signal = new AbortController().signal;

  constructor({ nodes, seed, observers, families = ['ipv4'] }: Simulation) {
    this.names = namesOf(nodes);
    const numbers = new Map(this.names.map((name, at) => [name, at]));
    const ip = (name: string, family: string) => {
      const at = numbers.get(name) ?? 0;
      return parseIp(family === 'ipv4' ? `10.${at >> 8}.${at & 255}.1` : `fd00::${at.toString(16)}:1`);
    };
    const owners = new Map(this.names.flatMap((name) => ['ipv4', 'ipv6'].map((family) => [ip(name, family).text, name] as const)));
    for (const own of observers) {
      const random = generator(seed + (numbers.get(own) ?? 0));
      this.agents.set(
        own,
        new Mesh({
          own,
          settings: () => this.settings,
          names: () => this.names,
          ends: (peer) => families.map((family) => ({ family, from: ip(own, family), to: ip(peer, family) })),
          echo: async ({ to }, bytes) => this.#answer(own, owners.get(to.text) ?? '', bytes),
          mtu: () => 1_450,
          events: { note: (kind, subjects) => void this.noted.push(`${own} ${kind} ${subjects[0]}`) },
          observe: () => undefined,
          now: () => this.nowMs,
          random,
        }),
      );
    }
  }

  #answer(from: string, to: string, bytes: number): { readonly outcome: EchoOutcome; readonly rttMs: number } {
    const faults = [this.faults.get(from), this.faults.get(to)];
    if (faults.includes('cut') || (faults.includes('narrow') && bytes > 1_000)) return { outcome: 'silent', rttMs: 400 };
    return { outcome: 'answered', rttMs: faults.includes('slow') ? 80 : 0.4 };
  }

  async pass(seconds: number): Promise<void> {
    for (let tick = 0; tick < seconds * 5; tick++) {
      for (const agent of this.agents.values()) agent.step(this.#signal);
      await new Promise((resolve) => setImmediate(resolve)); // all answers of this tick
      this.nowMs += 200;
    }
  }
}

describe('fixed peers', () => {
  it('are sixteen at any size, and each node has sixteen observers', () => {
    for (const count of [17, 18, 40, 5_000]) {
      const names = namesOf(count);
      const observers = new Map<string, number>();
      for (const name of names)
        for (const peer of fixedPeers(names, name, 16)) {
          expect(peer).not.toBe(name);
          observers.set(peer, (observers.get(peer) ?? 0) + 1);
        }
      expect(new Set(observers.values())).toEqual(new Set([16]));
      expect(observers.size).toBe(count);
    }
    expect(fixedPeers(['a', 'b', 'c'], 'a', 16)).toEqual(['b', 'c']);
    expect(fixedPeers(['a'], 'a', 16)).toEqual([]);
    expect(fixedPeers(namesOf(5_000), 'node-0000', 16).slice(0, 5)).toEqual([
      'node-0001',
      'node-0002',
      'node-0004',
      'node-0008',
      'node-0016',
    ]);
  });
});

describe('the mesh of 5,000 nodes', () => {
  const names = namesOf(5_000);
  const faulty = 'node-2500';
  const observersOf = names.filter((name) => fixedPeers(names, name, 16).includes(faulty));

  it.each(['cut', 'slow', 'narrow'] as const)('names a node with a %s link within 30 seconds', async (fault) => {
    const cluster = new MeshCluster({ nodes: 5_000, seed: 7, observers: [...observersOf, faulty] });
    await cluster.pass(60);
    expect([...cluster.agents.values()].flatMap((agent) => agent.problems())).toEqual([]);
    cluster.faults.set(faulty, fault);
    await cluster.pass(30);
    const naming = [...cluster.agents].filter(([name, agent]) => agent.problems().some(({ about }) => about === faulty || name === faulty));
    expect(naming.length).toBeGreaterThan(0);
    if (fault !== 'narrow') expect(naming.length).toBeGreaterThanOrEqual(16);
    cluster.faults.clear();
    await cluster.pass(60);
    expect([...cluster.agents.values()].flatMap((agent) => agent.problems())).toEqual([]);
  });

  it('costs 2.6 echoes a second and node at most', async () => {
    const cluster = new MeshCluster({ nodes: 5_000, seed: 9, observers: observersOf.slice(0, 1) });
    await cluster.pass(100);
    const [agent] = [...cluster.agents.values()];
    expect(agent?.counters.sent).toBeLessThanOrEqual(290);
    expect(agent?.counters.sent).toBeGreaterThan(230);
    expect(agent?.counters.lost).toBe(0);
  });

  it('reports nothing for single losses, and each fault once in the history', async () => {
    const cluster = new MeshCluster({ nodes: 5_000, seed: 11, observers: observersOf.slice(0, 1) });
    await cluster.pass(30);
    cluster.noted.length = 0;
    cluster.faults.set(faulty, 'cut');
    await cluster.pass(25);
    const [own = ''] = observersOf;
    expect(cluster.noted).toEqual([`${own} mesh.lost node/${faulty}`]);
    expect(cluster.agents.get(own)?.problems()).toMatchObject([{ kind: 'mesh.peer', message: `node ${faulty} does not answer over ipv4` }]);
    expect(cluster.agents.get(own)?.states().lost).toBe(1);
  });
});

it.each(Array.from({ length: 20 }, (_, seed) => seed))(
  'names a narrow link of three nodes within 30 seconds by each of the others, in both families, seed %i',
  async (seed) => {
    const observers = namesOf(2);
    const cluster = new MeshCluster({ nodes: 3, seed, observers, families: ['ipv4', 'ipv6'] });
    await cluster.pass(60);
    cluster.faults.set('node-0002', 'narrow');
    await cluster.pass(30);
    const messages = observers.map((name) =>
      cluster.agents
        .get(name)
        ?.problems()
        .map(({ message }) => message),
    );
    const sentence = (family: string) => `answers over ${family}, but not to packets of 1450 bytes`;
    expect(messages).toEqual(observers.map(() => [`node node-0002 ${sentence('ipv4')}, and ${sentence('ipv6')}`]));
  },
);

it('names ten peers, then a count, and blames itself if most are slow', async () => {
  const cluster = new MeshCluster({ nodes: 17, seed: 3, observers: ['node-0000'], families: ['ipv4', 'ipv6'] });
  await cluster.pass(30);
  const [agent] = [...cluster.agents.values()];
  cluster.faults.set('node-0000', 'slow');
  await cluster.pass(30);
  expect(agent?.states().slow).toBe(16);
  expect(agent?.problems()).toEqual([]);
  cluster.faults.set('node-0000', 'cut');
  await cluster.pass(30);
  expect(agent?.problems()).toHaveLength(11);
  expect(agent?.problems()[10]?.message).toContain('6 more nodes');
});

it('ends with the fault of this program that sending an echo threw', async () => {
  const names = namesOf(2);
  const [own = ''] = names;
  const fault = new Error('a fault');
  const ip = parseIp('10.0.0.1');
  const mesh = new Mesh({
    ...{
      own,
      settings: () => ({ intervalMs: 10_000, peers: 1 }),
      names: () => names,
      mtu: () => 1_450,
      observe: () => undefined,
      random: () => 0,
    },
    ends: () => [{ family: 'ipv4', from: ip, to: ip }],
    echo: () => Promise.reject(fault),
    events: { note: () => undefined },
    now: () => performance.now(),
  });
  await expect(mesh.run(AbortSignal.timeout(10_000))).rejects.toBe(fault);
});

it('follows its settings while it runs: off, on again with other peers, and more often', async () => {
  const cluster = new MeshCluster({ nodes: 40, seed: 5, observers: ['node-0000'] });
  const [agent] = [...cluster.agents.values()];
  const sentIn = async (seconds: number): Promise<number> => {
    const before = agent?.counters.sent ?? 0;
    await cluster.pass(seconds);
    return (agent?.counters.sent ?? 0) - before;
  };
  cluster.faults.set('node-0001', 'cut');
  await cluster.pass(100);
  expect(agent?.problems()).toHaveLength(1);
  cluster.settings = { intervalMs: 0, peers: 16 };
  await cluster.pass(1);
  expect(await sentIn(60)).toBe(0);
  expect([agent?.problems(), agent?.paths()]).toEqual([[], []]);
  cluster.settings = { intervalMs: 10_000, peers: 2 };
  await cluster.pass(100);
  expect(Object.values(agent?.states() ?? {}).reduce((sum, count) => sum + count, 0)).toBe(2);
  cluster.faults.clear();
  await cluster.pass(60);
  const rarely = await sentIn(100);
  cluster.settings = { intervalMs: 1_000, peers: 16 };
  await cluster.pass(20);
  expect(await sentIn(100)).toBeGreaterThan(4 * rarely);
});
