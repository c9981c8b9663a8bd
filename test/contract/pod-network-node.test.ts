import { execFileSync } from 'node:child_process';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { SeineError } from '../../src/errors/seine-error.ts';
import type { AttachedPod, PodAttachment } from '../../src/ipam/attachment.ts';
import type { Lease } from '../../src/ipam/lease.ts';
import { getLink, listLinks } from '../../src/netlink/links.ts';
import { createNamedNamespace, deleteNamedNamespace } from '../../src/netlink/namespace.ts';
import { randomName } from '../integration/netlink-fixture.ts';
import { becomeNode, type TestNode } from '../support/node-wiring.ts';
import { newPod, patience, podNetworkContract } from './pod-network.ts';

let node: TestNode;
beforeAll(async () => {
  node = await becomeNode();
});
afterAll(() => node.close());

function makeNamespace(): string {
  const name = randomName('pnc');
  createNamedNamespace(name).close();
  return `/run/netns/${name}`;
}

const nameIn = (path: string): string => path.replace('/run/netns/', '');

podNetworkContract('NodePodNetwork', async () => ({
  network: node.network,
  makeNamespace,
  removeNamespace: (path) => deleteNamedNamespace(nameIn(path)),
  unusable: { 'no namespace': '/etc/passwd', 'the node’s own': '/proc/self/ns/net', 'another kind': '/proc/self/ns/mnt' },
  remains: async () => {
    const { host, database, openflow } = node.plane;
    const flows: string[] = [];
    await openflow.dumpFlows({}, (flow) => flows.push(`flow in table ${flow.table}`), AbortSignal.timeout(5_000));
    const ports = [...database.tables.Port.rows()].map(({ name }) => name).filter((name) => name !== 'br-int' && name !== 'antrea-gw0');
    return [
      ...listLinks(host.socket, { kind: 'veth' }).map(({ name }) => `link ${name}`),
      ...ports.map((name) => `port ${name}`),
      ...flows,
    ].toSorted();
  },
  close: async () => {},
}));

describe('a pod on a real node', () => {
  let path: string;
  let pod: PodAttachment;
  let attached: AttachedPod;
  const inPod = (...words: readonly string[]): string =>
    execFileSync('ip', ['netns', 'exec', nameIn(path), ...words], { encoding: 'utf8' });
  const check = (): Promise<readonly string[]> => node.network.check(pod, attached, patience());
  const ofPort = (): string => node.ovs.exec('ovs-vsctl', 'get', 'interface', attached.hostIfName, 'ofport').trim();

  beforeEach(async () => {
    path = makeNamespace();
    pod = newPod(path);
    attached = await node.network.attach(pod, patience());
  });
  afterEach(async () => {
    await node.network.detach(pod, patience());
    deleteNamedNamespace(nameIn(path));
  });

  it('has the requested interface, as iproute2, ethtool and the switch see it', () => {
    const [link] = JSON.parse(inPod('ip', '-json', 'address', 'show', 'eth0'));
    expect(link).toMatchObject({ address: pod.mac, mtu: attached.mtu, operstate: 'UP' });
    const addresses = link.addr_info.filter(({ scope }: { scope: string }) => scope === 'global');
    expect(addresses.map(({ local, prefixlen }: { local: string; prefixlen: number }) => `${local}/${prefixlen}`)).toEqual(
      pod.addresses.map(({ ip, prefixLength }) => `${ip.text}/${prefixLength}`),
    );
    expect(inPod('ip', 'route', 'show', 'default')).toContain('via 10.10.3.254 dev eth0');
    expect(inPod('ip', '-6', 'route', 'show', 'default')).toContain('via fd00:10::ffff dev eth0');
    expect(inPod('ethtool', '-k', 'eth0')).toContain('tx-checksumming: off');
    const [asked, has] = node.ovs.exec('ovs-vsctl', 'get', 'interface', attached.hostIfName, 'ofport_request', 'ofport').split('\n');
    expect(has).toBe(asked);
    expect(node.ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', 'dump-flows', 'br-int', 'table=0')).toContain(`in_port=${has}`);
  });

  const inOvs = (...words: readonly string[]): string => node.ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', ...words);
  it.each([
    ['the pod’s end down', () => inPod('ip', 'link', 'set', 'eth0', 'down'), 'interface eth0 is down'],
    ['the node’s end down', () => execFileSync('ip', ['link', 'set', attached.hostIfName, 'down']), 'is down'],
    ['an address gone', () => inPod('ip', '-4', 'address', 'flush', 'dev', 'eth0'), `/22 is missing on eth0`],
    ['a route gone', () => inPod('ip', '-6', 'route', 'del', 'default'), 'default route by fd00:10::ffff is missing on eth0'],
    ['another MAC', () => inPod('ip', 'link', 'set', 'eth0', 'address', '0e:00:00:00:99:99'), 'has MAC 0e:00:00:00:99:99 and not'],
    ['a larger MTU', () => inPod('ip', 'link', 'set', 'eth0', 'mtu', '9000'), 'has MTU 9000 and not'],
    ['no interface', () => inPod('ip', 'link', 'del', 'eth0'), 'interface eth0 is missing'],
  ])('is found with %s', async (_, breakIt, says) => {
    breakIt();
    expect((await check()).join('; ')).toContain(says);
  });

  it.each([
    ['a deleted port', () => node.ovs.exec('ovs-vsctl', '--no-wait', 'del-port', attached.hostIfName)],
    ['another port number', () => node.ovs.exec('ovs-vsctl', '--no-wait', 'set', 'interface', attached.hostIfName, 'ofport_request=500')],
    ['a deleted flow', () => inOvs('del-flows', 'br-int', `table=0,in_port=${ofPort()}`)],
    ['a changed flow', () => inOvs('mod-flows', 'br-int', `table=0,in_port=${ofPort()},actions=drop`)],
  ])('is repaired after %s', async (_, breakIt) => {
    const before = ofPort();
    breakIt();
    await expect.poll(check, { timeout: 10_000 }).toEqual([]);
    await expect.poll(ofPort, { timeout: 10_000 }).toBe(before);
  });

  it('says which flow is missing while repair is paused', async () => {
    const { bridge } = node.plane.nodeState.targets;
    const observe = bridge.observe.bind(bridge);
    bridge.observe = (signal) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    inOvs('del-flows', 'br-int', `table=0,in_port=${ofPort()}`);
    try {
      expect(await check()).toEqual(['flow of priority 200 in table classify is missing']);
    } finally {
      bridge.observe = observe;
    }
  });

  it('keeps its address from a pod that comes later', async () => {
    const other = makeNamespace();
    const thief = newPod(other, { addresses: pod.addresses });
    const refused = node.network.attach(thief, patience()).finally(() => deleteNamedNamespace(nameIn(other)));
    await expect(refused).rejects.toMatchObject({ code: 'REFUSED' });
    expect(await check()).toEqual([]);
  });

  it('is not absent before all of it is gone', async () => {
    const lease: Lease = { ...pod, serial: 1, state: 'quarantined', attached };
    expect(node.network.isAbsent(lease)).toBe(false);
    await node.network.detach(pod, patience());
    expect(node.network.isAbsent(lease)).toBe(false); // the kernel needs longer
    await expect.poll(() => node.network.isAbsent(lease), { timeout: 10_000 }).toBe(true);
    const { database, host } = node.plane;
    expect(database.tables.Interface.find('name', attached.hostIfName)).toBeUndefined();
    expect(listLinks(host.socket, { kind: 'veth' }).map(({ name }) => name)).not.toContain(attached.hostIfName);
  });

  it('is absent when the same attachment has come back with other addresses', async () => {
    const lease: Lease = { ...pod, serial: 1, state: 'quarantined', attached };
    await node.network.detach(pod, patience());
    const { addresses } = newPod(path);
    pod = { ...pod, addresses };
    attached = await node.network.attach(pod, patience());
    expect(attached.hostIfName).toBe(lease.attached?.hostIfName);
    await expect.poll(() => node.network.isAbsent(lease), { timeout: 10_000 }).toBe(true);
    expect(await check()).toEqual([]);
  });

  it('has the MTU that the node has when it is served, not when its interface was made', async () => {
    await node.network.detach(pod, patience());
    const [before, now] = [node.environment.mtu(), 1_300];
    let asked = 0;
    node.environment.mtu = () => (asked++ === 0 ? before : now);
    attached = await node.network.attach(pod, patience()).finally(() => {
      node.environment.mtu = () => before;
    });
    expect(attached.mtu).toBe(now);
    expect(inPod('ip', 'link', 'show', 'eth0')).toContain(`mtu ${now}`);
    expect(getLink(node.plane.host.socket, attached.hostIfName)?.mtu).toBe(now);
  });

  it('gets its interface back each time that it is deleted, however often', async () => {
    const lease = { ...pod, serial: 1, state: 'allocated', attached } as const;
    const { database, host } = node.plane;
    const row = () => database.tables.Interface.find('name', attached.hostIfName);
    const unplug = async (): Promise<void> => {
      const [before] = database.tables.Open_vSwitch.rows();
      if (!before) throw new Error('the database is empty');
      await database.transact((tx) => tx.mutate('Open_vSwitch', [], ['next_cfg', '+=', 1n]), patience());
      await database.tables.Open_vSwitch.when(before._uuid, (now) => (now && now.cur_cfg > before.next_cfg ? true : undefined), patience());
      expect(row()).toBeUndefined();
    };
    const number = ofPort();
    for (let time = 0; time < 8; time++) {
      execFileSync('ip', ['link', 'del', attached.hostIfName]);
      await expect.poll(() => getLink(host.socket, attached.hostIfName)).toBeUndefined();
      const again = await node.network.recreate(lease, unplug, patience());
      expect(again).toBeDefined();
      attached = again ?? attached;
      expect(row()).toMatchObject({ ofport: Number(number) });
      expect(row()?.error ?? '').toBe('');
      expect(await check()).toEqual([]);
    }
  });

  it('keeps its wish for a port if its interface cannot be made anew', async () => {
    const lease = { ...pod, serial: 1, state: 'allocated', attached } as const;
    execFileSync('ip', ['link', 'del', attached.hostIfName]);
    const failing = async (): Promise<void> => {
      throw new SeineError('UNAVAILABLE', 'test: no answer');
    };
    await expect(node.network.recreate(lease, failing, patience())).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    const ports = () => [...node.plane.database.tables.Port.rows()].map(({ name }) => name);
    await expect.poll(ports, { timeout: 5_000 }).toContain(attached.hostIfName);
  });

  it('gets no interface back into another namespace that has its path by now', async () => {
    const lease = { ...pod, serial: 1, state: 'allocated', attached } as const;
    deleteNamedNamespace(nameIn(path));
    createNamedNamespace(nameIn(path)).close();
    const hasLink = () => listLinks(node.plane.host.socket, { kind: 'veth' }).some(({ name }) => name === attached.hostIfName);
    await expect.poll(hasLink, { timeout: 10_000 }).toBe(false);
    await expect(node.network.recreate(lease, async () => {}, patience())).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringContaining('is another namespace by now'),
    });
    expect(inPod('ip', '-br', 'link')).not.toContain('eth0');
  });

  it('becomes absent although the kernel would not let go of its interface at first', async () => {
    const { remover } = node.plane.host;
    const remove = remover.remove.bind(remover);
    remover.remove = async () => {
      remover.remove = remove;
      throw new SeineError('REFUSED', 'test: busy');
    };
    await node.network.detach(pod, patience());
    const lease: Lease = { ...pod, serial: 1, state: 'quarantined', attached };
    await expect.poll(() => node.network.isAbsent(lease), { timeout: 5_000 }).toBe(true);
  });
});
