import { execFileSync } from 'node:child_process';
import { readFileSync, readlinkSync, rmSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { expect, it } from 'vitest';
import { parseIp } from '../../src/base/net/ip.ts';
import { parseMac } from '../../src/base/net/mac.ts';
import { errnoOf } from '../../src/netlink/errno.ts';
import { createVeth, getLink } from '../../src/netlink/links.ts';
import { Batch } from '../../src/netlink/message.ts';
import { createNamedNamespace, deleteNamedNamespace, NetworkNamespace } from '../../src/netlink/namespace.ts';
import { namespaceIdOf } from '../../src/netlink/namespace-id.ts';
import { announcement } from '../../src/netlink/packets/announce.ts';
import { listNeighbours, replaceNeighbour } from '../../src/netlink/routing/neighbours.ts';
import { NetlinkSocket } from '../../src/netlink/socket.ts';
import { readSysctl, writeSysctl } from '../../src/netlink/sysctl.ts';
import { RawSocket } from '../support/raw-socket.ts';
import { failureOf, openDescriptors, randomName, withNamespaces, withWire } from './netlink-fixture.ts';

const here = () => readlinkSync('/proc/thread-self/ns/net');

it('creates and deletes a namespace that ip-netns knows', () => {
  const name = randomName('nlt');
  createNamedNamespace(name).close();
  expect(execFileSync('ip', ['netns', 'list'], { encoding: 'utf8' })).toContain(name);
  expect(errnoOf(failureOf(() => createNamedNamespace(name)))).toBe('EEXIST');
  deleteNamedNamespace(name);
  deleteNamedNamespace(name);
  expect(execFileSync('ip', ['netns', 'list'], { encoding: 'utf8' })).not.toContain(name);
});

it('opens nothing but another network namespace', () => {
  const before = openDescriptors();
  const fifo = `/run/${randomName('fifo')}`;
  execFileSync('mkfifo', [fifo]);
  try {
    for (const path of [
      '/proc/self/ns/net',
      '/proc/self/ns/mnt',
      '/etc/passwd',
      '/run',
      '/run/none-such',
      '/dev/null',
      fifo,
      '/etc/passwd/x',
      'a\0b',
    ])
      expect(
        failureOf(() => NetworkNamespace.open(path)),
        path,
      ).toMatchObject({ code: 'INVALID_INPUT' });
  } finally {
    rmSync(fifo);
  }
  expect(openDescriptors()).toBe(before);
});

it('enters and always returns', () =>
  withNamespaces(1, ({ namespace }) => {
    const home = here();
    const inside = namespace.run(() => here());
    expect(inside).not.toBe(home);
    expect(inside).toBe(`net:[${namespace.identity.split(':')[1]}]`);
    expect(() =>
      namespace.run(() => {
        throw new Error('inside');
      }),
    ).toThrow('inside');
    expect(() => namespace.run(() => namespace.run(() => 1))).toThrow('[INVARIANT] already inside');
    expect(here()).toBe(home);
    expect(namespace.run(() => 5)).toBe(5);
  }));

it('forbids waiting inside', () =>
  withNamespaces(1, ({ namespace }) => {
    const home = here();
    // @ts-expect-error a block that gives a promise is no SynchronousBlock
    expect(() => namespace.run(async () => 1)).toThrow('[INVARIANT] nothing may wait');
    expect(here()).toBe(home);
  }));

it('keeps the thread pool outside, even if its first use is inside', () => {
  // In a separate process, because here the pool was started long before.
  const script = `
    import { stat, readdirSync, readlinkSync } from 'node:fs';
    import { createNamedNamespace, deleteNamedNamespace } from '${import.meta.dirname}/../../src/netlink/namespace.ts';
    const namespace = createNamedNamespace(process.argv[1]);
    const inPool = new Promise((resolve) => namespace.run(() => { stat('/', resolve); }));
    await inPool;
    const homes = readdirSync('/proc/self/task').map((task) => readlinkSync('/proc/self/task/' + task + '/ns/net'));
    console.log(new Set(homes).size);
    namespace.close();
    deleteNamedNamespace(process.argv[1]);
  `;
  const output = execFileSync(process.execPath, ['--input-type=module', '--eval', script, randomName('nlt')], { encoding: 'utf8' });
  expect(output.trim()).toBe('1');
});

it('reads and writes the kernel parameters of a namespace from inside only', async () =>
  withNamespaces(1, async ({ namespace }) => {
    const name = ['net', 'ipv4', 'ip_default_ttl'];
    const atHome = readSysctl(name);
    namespace.run(() => writeSysctl(name, 33));
    expect(namespace.run(() => readSysctl(name))).toBe('33');
    expect(readSysctl(name)).toBe(atHome);
    expect((await stat(`/proc/sys/${name.join('/')}`)).isFile()).toBe(true);
    expect(readFileSync(`/proc/sys/${name.join('/')}`, 'utf8').trim()).toBe(atHome);
  }));

it('announces the new place of an address to neighbours', () =>
  withWire(async (one, two) => {
    const socket = NetlinkSocket.open({ namespace: two.namespace });
    const stale = parseMac('0a:00:00:00:00:99');
    const addresses = [parseIp('10.0.0.1'), parseIp('fd00::1')];
    const batch = new Batch();
    for (const address of addresses) replaceNeighbour(batch, { link: two.link.index, address, mac: stale, state: 'reachable' });
    socket.transact(batch);
    const { mac } = one.link;
    if (!mac) throw new Error('no MAC');
    const raw = RawSocket.open(one.name, 'eth0');
    // The kernel keeps a fresh ARP entry for a moment (`locktime`) in any case, so announce until it takes effect.
    const known = () => {
      for (const address of addresses) raw.send(announcement(mac, address));
      return (['ipv4', 'ipv6'] as const).flatMap((family) =>
        listNeighbours(socket, { family, link: two.link.index })
          .filter(({ address }) => addresses.some(({ text }) => text === address.text))
          .map((neighbour) => neighbour.mac),
      );
    };
    await expect.poll(known, { timeout: 5000 }).toEqual([mac, mac]);
    raw.close();
    socket.close();
  }));

it('reads the number by which a link names the namespace of its other end', () => {
  const [near, far, foreign] = [randomName('nlt'), randomName('nlt'), randomName('nlt')].map((name) => createNamedNamespace(name));
  if (!near || !far || !foreign) throw new Error('no namespaces');
  const socket = NetlinkSocket.open({ namespace: near });
  try {
    expect(namespaceIdOf(socket, far)).toBeUndefined();
    const batch = new Batch();
    createVeth(batch, { name: 'here', peer: { name: 'there', namespace: far } });
    socket.transact(batch);
    const link = getLink(socket, 'here');
    expect(link?.peerNamespaceId).toBeDefined();
    expect(namespaceIdOf(socket, far)).toBe(link?.peerNamespaceId);
    expect(namespaceIdOf(socket, foreign)).toBeUndefined();
  } finally {
    socket.close();
    for (const namespace of [near, far, foreign]) {
      namespace.close();
      deleteNamedNamespace(basename(namespace.path));
    }
  }
});
