import { execFileSync } from 'node:child_process';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { getLink, listLinks } from '../../src/netlink/links.ts';
import { createNamedNamespace, deleteNamedNamespace } from '../../src/netlink/namespace.ts';
import type { AttachedPod, PodAttachment } from '../../src/pods/ipam/attachment.ts';
import type { Lease } from '../../src/pods/ipam/lease.ts';
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

  it('has the requested interface, in iproute2, ethtool and OVS', () => {
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

  it('keeps its address from a later pod', async () => {
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

  it('is not absent before all of it is removed', async () => {
    const other = makeNamespace();
    const thief = newPod(other, { addresses: pod.addresses });
    const refused = node.network.attach(thief, patience()).finally(() => deleteNamedNamespace(nameIn(other)));
    await expect(refused).rejects.toMatchObject({ code: 'REFUSED' });
    expect(await check()).toEqual([]);
  });

  it('is absent when the same attachment has returned with other addresses', async () => {
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

  it("has the node's MTU at the time of serving, not at the creation of its interface", async () => {
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

  it('gets its interface back each time that it is deleted, with its number', async () => {
    const { database, host } = node.plane;
    const row = () => database.tables.Interface.find('name', attached.hostIfName);
    const number = ofPort();
    for (let time = 0; time < 4; time++) {
      const index = getLink(host.socket, attached.hostIfName)?.index;
      const reported = node.changed.length;
      execFileSync('ip', ['link', 'del', attached.hostIfName]);
      await expect.poll(() => node.changed.length, { timeout: 10_000 }).toBeGreaterThan(reported);
      attached = node.changed.at(-1)?.attached ?? attached;
      await expect.poll(check, { timeout: 10_000 }).toEqual([]);
      expect(getLink(host.socket, attached.hostIfName)?.index).not.toBe(index);
      expect(row()).toMatchObject({ ofport: Number(number) });
      expect(row()?.error ?? '').toBe('');
    }
  });

  it('gets no interface back into another namespace that has its path by now, and keeps its port until it is deleted', async () => {
    deleteNamedNamespace(nameIn(path));
    createNamedNamespace(nameIn(path)).close();
    const { reconcilers } = node.plane.nodeState;
    const refusal = () =>
      reconcilers.links
        .failures()
        .map(({ error }) => error.message)
        .join();
    await expect.poll(refusal, { timeout: 10_000 }).toContain('is another namespace by now');
    expect(inPod('ip', '-br', 'link')).not.toContain('eth0');
    expect([...node.plane.database.tables.Port.rows()].map(({ name }) => name)).toContain(attached.hostIfName);
    await node.network.detach(pod, patience());
    await expect.poll(refusal, { timeout: 10_000 }).toBe('');
  });

  const host = (...words: readonly string[]) => execFileSync('ip', ['link', 'set', attached.hostIfName, ...words]);
  const seen = async () => {
    const [onNode] = JSON.parse(execFileSync('ip', ['-json', 'link', 'show', attached.hostIfName], { encoding: 'utf8' }));
    const { ifalias, mtu, flags } = onNode;
    return [await check(), ifalias, mtu, flags.includes('NOARP'), inPod('ethtool', '-k', 'eth0').includes('tx-checksumming: off')];
  };
  it.each([
    ['the node’s end is set down', () => host('down')],
    ['the node’s end has another MTU', () => host('mtu', '1300')],
    ['the node’s end has another alias', () => host('alias', 'mine')],
    ['the node’s end has no alias', () => host('alias', '')],
    ['the node’s end answers ARP', () => host('arp', 'on')],
    ['the pod’s end is set down', () => inPod('ip', 'link', 'set', 'eth0', 'down')],
    ['the pod’s end has a larger MTU', () => inPod('ip', 'link', 'set', 'eth0', 'mtu', '9000')],
    ['the pod’s end has another MAC', () => inPod('ip', 'link', 'set', 'eth0', 'address', '0e:00:00:00:99:99')],
    ['the pod’s end leaves checksums to others', () => inPod('ethtool', '-K', 'eth0', 'tx', 'on')],
  ])('is restored after %s', async (_, change) => {
    const before = await seen();
    change();
    node.plane.nodeState.recheck();
    await expect.poll(seen, { timeout: 10_000 }).toEqual(before);
    expect(node.inside.sentences).toEqual([]);
  });

  it.each([
    ['the node’s end down', () => host('down')],
    ['the pod’s end down', () => inPod('ip', 'link', 'set', 'eth0', 'down')],
  ])('is reported without a sweep: %s', async (_, change) => {
    const before = await seen();
    change();
    await expect.poll(seen, { timeout: 2_000 }).toEqual(before);
  });

  it('is reported as changed in its namespace, and not repaired', async () => {
    const { reconcilers } = node.plane.nodeState;
    const [ipv4] = pod.addresses;
    const reported = async (): Promise<string> => {
      await reconcilers.links.confirmed(patience());
      return node.inside.sentences.join();
    };
    inPod('ip', '-6', 'route', 'del', 'default');
    inPod('ip', 'address', 'add', '10.99.0.1/32', 'dev', 'eth0'); // as a service mesh may
    expect(await reported()).toBe(
      `in pod default/${pod.pod?.name}: default route by fd00:10::ffff is missing on eth0; repairPods is false, so that it stays`,
    );
    inPod('ip', 'address', 'del', `${ipv4?.ip.text}/22`, 'dev', 'eth0');
    expect(await reported()).toContain(`address ${ipv4?.ip.text}/22 is missing on eth0`);
    inPod('ip', 'link', 'set', 'eth0', 'down');
    inPod('ip', 'link', 'set', 'eth0', 'name', 'eth0-nic');
    expect(await reported()).toContain('eth0 is named eth0-nic');
    expect(inPod('ip', 'link', 'show', 'eth0-nic')).toContain('state DOWN'); // the process that renamed it manages it
    expect(reconcilers.links.failures()).toEqual([]);
  });

  it("keeps a smaller MTU that a program inside has chosen, and not the node's previous one", async () => {
    const before = node.environment.mtu();
    const mtuInPod = () => Number(/mtu (\d+)/.exec(inPod('ip', 'link', 'show', 'eth0'))?.[1]);
    const become = async (mtu: number): Promise<void> => {
      const reported = node.changed.length;
      node.environment.mtu = () => mtu;
      node.network.resize();
      await expect.poll(() => node.changed.length, { timeout: 10_000 }).toBeGreaterThan(reported);
    };
    try {
      await become(1_300);
      expect(mtuInPod()).toBe(1_300);
      await become(1_350);
      expect(mtuInPod()).toBe(1_350);
      inPod('ip', 'link', 'set', 'eth0', 'mtu', '1280');
      await become(1_400);
      expect(mtuInPod()).toBe(1_280);
      expect(getLink(node.plane.host.socket, attached.hostIfName)?.mtu).toBe(1_400);
    } finally {
      node.environment.mtu = () => before;
    }
  });

  it('becomes absent although the kernel would not delete its interface at first', async () => {
    const { remover } = node.plane.host;
    const remove = remover.remove.bind(remover);
    remover.remove = async () => {
      remover.remove = remove;
      throw new SeineError('REFUSED', 'test: busy');
    };
    await node.network.detach(pod, patience());
    const lease: Lease = { ...pod, serial: 1, state: 'quarantined', attached };
    // The next sweep finds it.
    await expect.poll(() => node.network.isAbsent(lease), { timeout: 15_000 }).toBe(true);
  });
});
