import { execFileSync, spawn } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { silentLog } from '../../src/base/log/log.ts';
import { parseCidr } from '../../src/base/net/ip.ts';
import { nothing } from '../../src/dataplane/desired/host-entries.ts';
import { ownerOf } from '../../src/dataplane/pipeline/cookie.ts';
import { type Flow, goto } from '../../src/dataplane/pipeline/flow.ts';
import { getLink } from '../../src/netlink/links.ts';
import { createNamedNamespace, deleteNamedNamespace } from '../../src/netlink/namespace.ts';
import { takeInventory } from '../../src/pods/inventory/inventory.ts';
import type { AttachedLease } from '../../src/pods/ipam/attached-lease.ts';
import type { AttachedPod, PodAttachment } from '../../src/pods/ipam/attachment.ts';
import { attachmentId, type Lease } from '../../src/pods/ipam/lease.ts';
import { randomName } from '../integration/netlink-fixture.ts';
import { becomeNode, type TestNode } from '../support/node-wiring.ts';
import { TestPorts } from '../support/ports-namespace.ts';
import { newPod, patience, podNetworkContract } from './pod-network.ts';

const testPorts = new TestPorts();
let node: TestNode;
/** Number of free ports that are kept. */
const free = (count: number): Promise<boolean> => vi.waitUntil(() => node.standing.counts.free >= count, { timeout: 15_000 });
beforeAll(async () => {
  node = await becomeNode(testPorts.config);
  await free(8);
});
afterAll(async () => {
  await node.close();
  testPorts.remove();
});

function makeNamespace(): string {
  const name = randomName('pnc');
  createNamedNamespace(name).close();
  return `/run/netns/${name}`;
}

const nameIn = (path: string): string => path.replace('/run/netns/', '');
const farEnds = (): readonly string[] => testPorts.run('ip', '-o', 'link').split('\n');
/** Far ends with the alias of an owner. */
const taken = (): readonly string[] => farEnds().filter((line) => line.includes('alias'));
/** Ports with an owner in the database. */
const described = (): readonly string[] =>
  [...node.plane.database.tables.Port.rows()].filter(({ external_ids: ids }) => ids.has('container-id')).map(({ name }) => name);

podNetworkContract('NodePodNetwork with standing ports', async () => ({
  network: node.network,
  makeNamespace,
  removeNamespace: (path) => deleteNamedNamespace(nameIn(path)),
  unusable: { 'no namespace': '/etc/passwd', 'the node’s own': '/proc/self/ns/net' },
  remains: async () => {
    const { openflow } = node.plane;
    const flows: string[] = [];
    await openflow.dumpFlows({}, (flow) => flows.push(`flow in table ${flow.table}`), AbortSignal.timeout(5_000));
    return [...taken(), ...described().map((name) => `port ${name}`), ...flows].toSorted();
  },
  close: async () => {},
}));

describe('a pod above a pre-plugged port', () => {
  let path: string;
  let pod: PodAttachment;
  let attached: AttachedPod;
  const inPod = (...words: readonly string[]): string =>
    execFileSync('ip', ['netns', 'exec', nameIn(path), ...words], { encoding: 'utf8' });
  const check = (): Promise<readonly string[]> => node.network.check(pod, attached, patience());
  const rows = (): number => [...node.plane.database.tables.Port.rows()].length;
  const passes = (): number => Number(node.ovs.exec('ovs-appctl', '-t', 'ovs-vswitchd', 'coverage/read-counter', 'bridge_reconfigure'));
  /** Ports of earlier tests' pods are free, and missing ones are created. */
  const allFree = (): Promise<boolean> =>
    vi.waitUntil(() => node.standing.counts.used === 1 && node.standing.counts.coming === 0 && node.standing.counts.free >= 8, {
      timeout: 15_000,
    });
  const leaseOf = (): Lease => ({ ...pod, serial: 1, state: 'quarantined', attached });

  beforeEach(async () => {
    await free(4);
    path = makeNamespace();
    pod = newPod(path);
    attached = await node.network.attach(pod, patience());
  });
  afterEach(async () => {
    await node.network.detach(pod, patience());
    deleteNamedNamespace(nameIn(path));
    // No DEL waits for it: after a loss of the journal it would be found again.
    await expect.poll(described).toEqual([]);
  });

  it('has a macvlan above the far end of an existing port, and ovs-vswitchd did nothing for it', async () => {
    await node.network.detach(pod, patience());
    await free(8);
    const [portsBefore, passesBefore] = [rows(), passes()];
    const fallbacks = JSON.stringify([...node.standing.fallbacks]);
    attached = await node.network.attach(pod, patience());
    expect(attached.hostIfName).toMatch(/^sp-\d+$/);
    expect(inPod('ip', '-d', 'link', 'show', 'eth0')).toMatch(/macvlan mode passthru/);
    expect(await check()).toEqual([]);
    expect([rows(), passes()]).toEqual([portsBefore, passesBefore]);
    expect(JSON.stringify([...node.standing.fallbacks])).toBe(fallbacks);
  });

  it('releases its port to the next pod only when its interface is deleted, and its address until then', async () => {
    await node.network.detach(pod, patience());
    expect(node.standing.isUsed(attached.hostIfName)).toBe(true);
    expect(node.network.isAbsent(leaseOf())).toBe(false);
    deleteNamedNamespace(nameIn(path));
    await expect.poll(() => node.network.isAbsent(leaseOf()), { timeout: 10_000 }).toBe(true);
    expect(node.standing.isUsed(attached.hostIfName)).toBe(false);
    expect(taken().filter((line) => line.includes(pod.containerId))).toEqual([]);
    createNamedNamespace(nameIn(path)).close();
  });

  it('loses its interface also if its namespace lives on without a path', async () => {
    const holder = spawn('nsenter', [`--net=${path}`, 'sleep', '60'], { stdio: 'ignore' });
    const inside = (): string => execFileSync('nsenter', [`--net=/proc/${holder.pid}/ns/net`, 'ip', '-br', 'link'], { encoding: 'utf8' });
    try {
      await vi.waitUntil(() => inside().includes('eth0'), { timeout: 10_000 });
      deleteNamedNamespace(nameIn(path));
      await node.network.detach(pod, patience());
      await expect.poll(inside, { timeout: 15_000 }).not.toContain('eth0');
    } finally {
      holder.kill('SIGKILL');
      createNamedNamespace(nameIn(path)).close();
    }
  });

  it.each([
    ['its interface is deleted', () => inPod('ip', 'link', 'del', 'eth0')],
    ['its interface is set down', () => inPod('ip', 'link', 'set', 'eth0', 'down')],
    ['the node’s end is set down', () => execFileSync('ip', ['link', 'set', attached.hostIfName, 'down'])],
    ['the node’s end is deleted', () => execFileSync('ip', ['link', 'del', attached.hostIfName])],
    ['the far end is set down', () => testPorts.run('ip', 'link', 'set', attached.hostIfName.replace('sp', 'far'), 'down')],
    ['the far end has another MTU', () => testPorts.run('ip', 'link', 'set', attached.hostIfName.replace('sp', 'far'), 'mtu', '1280')],
    ['the port is deleted', () => node.ovs.exec('ovs-vsctl', '--no-wait', 'del-port', attached.hostIfName)],
  ])('is restored after %s', async (_, change) => {
    change();
    node.plane.nodeState.recheck();
    await expect.poll(check, { timeout: 10_000 }).toEqual([]);
    expect(taken().filter((line) => line.includes(pod.containerId))).toHaveLength(1);
  });

  it.each(['600', '1300'])('has no IPv6 on the node’s end after that had an MTU of %s, and another program enabled it', async (small) => {
    const setting = `/proc/sys/net/ipv6/conf/${attached.hostIfName}/disable_ipv6`;
    const disabled = (): string => (existsSync(setting) ? readFileSync(setting, 'utf8').trim() : 'no IPv6');
    expect(disabled()).toBe('1');
    if (small !== '600') writeFileSync(setting, '0');
    execFileSync('ip', ['link', 'set', attached.hostIfName, 'mtu', small]);
    node.plane.nodeState.recheck();
    await expect.poll(check, { timeout: 10_000 }).toEqual([]);
    await expect.poll(disabled, { timeout: 10_000 }).toBe('1');
  });

  it('has its MTU back after the kernel has made its interface smaller with the far end', async () => {
    const mtu = (): string | undefined => /mtu (\d+)/.exec(inPod('ip', 'link', 'show', 'eth0'))?.[1];
    const before = mtu();
    testPorts.run('ip', 'link', 'set', attached.hostIfName.replace('sp', 'far'), 'mtu', '1299');
    expect(mtu()).toBe('1299');
    node.plane.nodeState.recheck();
    await expect.poll(mtu, { timeout: 10_000 }).toBe(before);
  });

  it('follows the MTU of the node up and down, and so do the free ports', async () => {
    const before = node.environment.mtu();
    const mtus = (): readonly (number | undefined)[] => [
      Number(/mtu (\d+)/.exec(inPod('ip', 'link', 'show', 'eth0'))?.[1]),
      getLink(node.plane.host.socket, attached.hostIfName)?.mtu,
      ...new Set(
        farEnds()
          .filter((line) => line.includes('far-'))
          .map((line) => Number(/mtu (\d+)/.exec(line)?.[1])),
      ),
    ];
    try {
      for (const mtu of [1_300, 1_400]) {
        node.environment.mtu = () => mtu;
        node.network.resize();
        await expect.poll(mtus, { timeout: 10_000 }).toEqual([mtu, mtu, mtu]);
      }
    } finally {
      node.environment.mtu = () => before;
      node.network.resize();
    }
  });

  it('gets another port if one has a foreign interface above it', async () => {
    await free(4);
    const used = new Set(taken().map((line) => /far-\d+/.exec(line)?.[0]));
    const idle = farEnds().flatMap((line) => /(far-\d+)@/.exec(line)?.[1] ?? []);
    for (const far of idle.filter((name) => !used.has(name)))
      testPorts.run('ip', 'link', 'add', 'link', far, 'name', far.replace('far', 'mv'), 'type', 'macvlan', 'mode', 'passthru');
    const other = newPod(makeNamespace());
    const got = await node.network.attach(other, patience());
    expect(await node.network.check(other, got, patience())).toEqual([]);
    await node.network.detach(other, patience());
    deleteNamedNamespace(nameIn(other.netns));
    expect(testPorts.run('ip', '-br', 'link')).not.toContain(got.hostIfName.replace('sp', 'mv'));
  });

  it('gets a veth pair if no port is free, and the next one a port', async () => {
    const fallbacks = node.standing.fallbacks.get('noneFree');
    const pods = Array.from({ length: node.standing.counts.free + 1 }, () => newPod(makeNamespace()));
    const all = await Promise.all(pods.map((each) => node.network.attach(each, patience())));
    expect(node.standing.fallbacks.get('noneFree')).toBe((fallbacks ?? 0) + 1);
    const kinds = all.map(({ hostIfName }) => (hostIfName.startsWith('sp-') ? 'standing' : 'veth'));
    expect(kinds.filter((kind) => kind === 'veth')).toHaveLength(1);
    await Promise.all(pods.map((each) => node.network.detach(each, patience())));
    for (const { netns } of pods) deleteNamedNamespace(nameIn(netns));
    // The number of ports created at a time is kept from now on.
    await free(pods.length);
  });

  it('is not affected by ports that are created while pods follow each other, and the database is updated for all together', async () => {
    await allFree();
    await expect.poll(described).toEqual([attached.hostIfName]);
    const pods = Array.from({ length: node.standing.counts.free }, () => newPod(makeNamespace()));
    const seen: (readonly number[])[] = [];
    const startedMs = performance.now();
    for (const each of pods) {
      await node.network.attach(each, patience());
      // On a host that is too slow for it, the second of patience ends meanwhile.
      if (performance.now() - startedMs < 900) seen.push([node.standing.counts.coming, described().length]);
    }
    expect(seen).toEqual(seen.map(() => [0, 1]));
    await expect.poll(() => described().length).toBe(pods.length + 1);
    await Promise.all(pods.map((each) => node.network.detach(each, patience())));
    for (const { netns } of pods) deleteNamedNamespace(nameIn(netns));
  });

  it('is in the database soon even if other pods are attached all the time, and one that is deleted by then never is', async () => {
    await expect.poll(described).toEqual([attached.hostIfName]);
    const ended = node.standing.adding();
    const [stays, goes] = [newPod(makeNamespace()), newPod(makeNamespace())];
    const startedMs = performance.now();
    const { hostIfName: gone } = await node.network.attach(goes, patience());
    const { hostIfName: name } = await node.network.attach(stays, patience());
    await node.network.detach(goes, patience());
    const inTime = performance.now() - startedMs < 900;
    const seen = new Set<string>();
    await vi.waitUntil(
      () => {
        for (const each of described()) seen.add(each);
        return seen.has(name);
      },
      { timeout: 10_000 },
    );
    if (inTime) expect(seen).not.toContain(gone);
    ended();
    await node.network.detach(stays, patience());
    for (const { netns } of [stays, goes]) deleteNamedNamespace(nameIn(netns));
  });

  it('is attached though OVS refuses concurrent entries of another owner', async () => {
    const back: Flow = { table: 'route', priority: 7, match: {}, steps: [goto('classify')] };
    const bad = ownerOf('pod', 'bad');
    const { nodeState } = node.plane;
    for (const round of ['the switch makes the rest', 'the switch is asked']) {
      const pods = Array.from({ length: 5 }, () => newPod(makeNamespace()));
      const attaching = pods.map((each) => node.network.attach(each, patience()));
      await expect(nodeState.realize(bad, { ...nothing, flows: [back] }, patience()), round).rejects.toMatchObject({ code: 'REFUSED' });
      const all = await Promise.all(attaching);
      const found = await Promise.all(
        pods.map(async (each, index) => await node.network.check(each, all[index] as AttachedPod, patience())),
      );
      expect(found.flat(), round).toEqual([]);
      nodeState.forget(bad);
      await Promise.all(pods.map((each) => node.network.detach(each, patience())));
      for (const { netns } of pods) deleteNamedNamespace(nameIn(netns));
    }
  });

  it('passes its port to the next pod without another one being created', async () => {
    await allFree();
    const pods = Array.from({ length: node.standing.counts.free }, () => newPod(makeNamespace()));
    const ports = rows();
    const startedMs = performance.now();
    await Promise.all(pods.map((each) => node.network.attach(each, patience())));
    await Promise.all(pods.map((each) => node.network.detach(each, patience())));
    // On a host that is too slow for it, the second of patience ends meanwhile.
    const inTime = performance.now() - startedMs < 900;
    await free(pods.length);
    if (inTime) expect(rows()).toBe(ports);
    for (const { netns } of pods) deleteNamedNamespace(nameIn(netns));
  });

  /** Pods of earlier tests may still be deleted. */
  const othersGo = { timeout: 10_000 };

  /** Inventory of an agent that starts now, with these leases in its journal. */
  const inventory = async (leases: readonly Lease[]) => {
    const found: AttachedLease[] = [];
    const released: Lease[] = [];
    let idle: readonly string[] = [];
    const pools = pod.addresses.map(({ ip, prefixLength, gateway }) => ({
      cidr: parseCidr(`${gateway.text}/${prefixLength}`),
      ip,
      gateway,
    }));
    const written = [...leases];
    await takeInventory({
      ipam: {
        leases: () => written,
        adopt: async (lease) => {
          const adopted: Lease = { ...lease, serial: 2, state: 'allocated' };
          written.push(adopted);
          return adopted;
        },
        release: (lease) => void released.push(written.find((each) => attachmentId(each) === attachmentId(lease)) ?? leaseOf()),
        rebooted: false,
      },
      pools,
      database: node.plane.database,
      host: node.plane.host,
      farEnds: node.farEnds,
      standing: { adoptIdle: (names) => void (idle = names), isKnown: () => false },
      network: { adopt: (lease) => void found.push(lease) },
      log: silentLog,
    });
    return { found, released, idle };
  };

  it('is found by an agent that starts, and so are the free ports', async () => {
    const lease: AttachedLease = { ...leaseOf(), state: 'allocated', attached };
    const { free: known } = node.standing.counts; // those of earlier pods may be released meanwhile
    await expect.poll(async () => await inventory([lease]), othersGo).toMatchObject({ found: [lease], released: [] });
    const { idle } = await inventory([lease]);
    expect(idle).not.toContain(attached.hostIfName);
    expect(idle.length).toBeGreaterThanOrEqual(known);
  });

  it.each(['', 'mine'])('is found by its lease though another program has changed the alias of its far end to “%s”', async (alias) => {
    const lease: AttachedLease = { ...leaseOf(), state: 'allocated', attached };
    const far = attached.hostIfName.replace('sp', 'far');
    const set = (text: string) => testPorts.run('ip', 'link', 'set', far, 'alias', text);
    const before = /alias (.+)/.exec(testPorts.run('ip', 'link', 'show', far))?.[1] ?? '';
    set(alias);
    const look = async () => {
      set(alias);
      const found = inventory([lease]);
      set(before);
      return await found;
    };
    await expect.poll(look, othersGo).toMatchObject({ found: [lease], released: [] });
  });

  it('is released by an agent that starts after its namespace was deleted', async () => {
    const lease: AttachedLease = { ...leaseOf(), state: 'allocated', attached };
    deleteNamedNamespace(nameIn(path));
    await expect.poll(async () => await inventory([lease]), { timeout: 10_000 }).toMatchObject({ found: [], released: [lease] });
    createNamedNamespace(nameIn(path)).close();
  });

  it('is found by the kernel alone, if the journal is lost and the agent died before the database was updated', async () => {
    const describePort = vi.spyOn(node.standing, 'describe').mockReturnValue(undefined);
    const late = newPod(makeNamespace());
    const got = await node.network.attach(late, patience());
    describePort.mockRestore();
    const { found } = await inventory([]);
    expect(found.find(({ containerId }) => containerId === late.containerId)).toMatchObject({
      network: late.network,
      ifName: 'eth0',
      netns: late.netns,
      mac: late.mac,
      addresses: late.addresses,
      attached: { hostIfName: got.hostIfName },
    });
    await node.network.detach(late, patience());
    deleteNamedNamespace(nameIn(late.netns));
  });

  it('does not pass its port to a lease of another pod that had it before', async () => {
    const before: AttachedLease = { ...newPod('/run/netns/none'), serial: 1, state: 'allocated', attached };
    const lease: AttachedLease = { ...leaseOf(), serial: 3, state: 'allocated', attached };
    await expect.poll(async () => await inventory([before, lease]), othersGo).toMatchObject({ found: [lease], released: [before] });
  });
});
