import { execFileSync } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { readFileSync, readlinkSync, rmSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { createServer, Socket } from 'node:net';
import { basename } from 'node:path';
import { expect, it } from 'vitest';
import { parseIp } from '../../src/net/ip.ts';
import { parseMac } from '../../src/net/mac.ts';
import { replaceAddress } from '../../src/netlink/addresses.ts';
import { announceAddresses } from '../../src/netlink/announce.ts';
import { errnoOf } from '../../src/netlink/errno.ts';
import { changeLink, createVeth, getLink, type Link } from '../../src/netlink/links.ts';
import { Batch } from '../../src/netlink/message.ts';
import { createNamedNamespace, deleteNamedNamespace, NetworkNamespace } from '../../src/netlink/namespace.ts';
import { namespaceIdOf } from '../../src/netlink/namespace-id.ts';
import { bindUdpIn, connectTcpIn, listenTcpIn } from '../../src/netlink/namespace-sockets.ts';
import { listNeighbours, replaceNeighbour } from '../../src/netlink/neighbours.ts';
import { NetlinkSocket } from '../../src/netlink/socket.ts';
import { readSysctl, writeSysctl } from '../../src/netlink/sysctl.ts';
import { failureOf, type Lab, openDescriptors, randomName, withNamespaces } from './netlink-fixture.ts';

const never = new AbortController().signal;
const here = () => readlinkSync('/proc/thread-self/ns/net');

it('makes and deletes a namespace that ip-netns knows', () => {
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

it('goes in and always comes back', () =>
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

it('keeps the thread pool at home, even if its first use is inside', () => {
  // In a process of its own, because here the pool has long been started.
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

/** Two namespaces joined by a veth, 10.0.0.1 and fd00::1 at one end, .2 at the other. */
async function withWire<T>(work: (one: Lab & { link: Link }, two: Lab & { link: Link }) => Promise<T>): Promise<T> {
  return withNamespaces(2, async (one, two) => {
    const sockets = [one, two].map(({ namespace }) => NetlinkSocket.open({ namespace }));
    const [first, second] = sockets;
    if (!first || !second) throw new Error('two sockets');
    const made = new Batch();
    createVeth(made, { name: 'eth0', peer: { name: 'eth0', namespace: two.namespace } });
    first.transact(made);
    const ends = [first, second].map((socket, index) => {
      const link = getLink(socket, 'eth0');
      if (!link) throw new Error('no eth0');
      const batch = new Batch();
      changeLink(batch, 'lo', { state: 'up' });
      changeLink(batch, link.index, { state: 'up' });
      replaceAddress(batch, { link: link.index, address: parseIp(`10.0.0.${index + 1}`), prefixLength: 24 });
      replaceAddress(batch, { link: link.index, address: parseIp(`fd00::${index + 1}`), prefixLength: 64 });
      socket.transact(batch);
      return link;
    });
    for (const socket of sockets) socket.close();
    const [a, b] = ends;
    if (!a || !b) throw new Error('two ends');
    return await work({ ...one, link: a }, { ...two, link: b });
  });
}

it.each(['10.0.0.2', 'fd00::2'])('serves and calls by TCP inside namespaces, at %s', (text) =>
  withWire(async (one, two) => {
    const address = parseIp(text);
    const before = openDescriptors();
    const server = createServer((connection) => connection.end(`${connection.remoteAddress}`));
    server.listen({ fd: listenTcpIn(two.namespace, { address, port: 8080 }) });
    await new Promise((resolve) => server.once('listening', resolve));
    const client = new Socket({ fd: await connectTcpIn(one.namespace, { address, port: 8080 }, AbortSignal.timeout(5000)) });
    let heard = '';
    for await (const chunk of client) heard += String(chunk);
    expect(heard).toBe(text.replace('2', '1'));
    await expect(connectTcpIn(one.namespace, { address, port: 9 }, never)).rejects.toMatchObject({ context: { errno: 'ECONNREFUSED' } });
    expect(errnoOf(failureOf(() => listenTcpIn(two.namespace, { address, port: 8080 })))).toBe('EADDRINUSE');
    expect(errnoOf(failureOf(() => listenTcpIn(one.namespace, { address, port: 8080 })))).toBe('EADDRNOTAVAIL');
    await new Promise((resolve) => server.close(resolve));
    await expect.poll(() => openDescriptors()).toBe(before);
  }),
);

it('stops waiting for a connection that nobody answers', () =>
  withWire(async (one) => {
    const before = openDescriptors();
    const caller = new AbortController();
    const connection = connectTcpIn(one.namespace, { address: parseIp('10.0.0.77'), port: 80 }, caller.signal);
    setImmediate(() => caller.abort());
    await expect(connection).rejects.toMatchObject({ code: 'CANCELLED' });
    await expect(connectTcpIn(one.namespace, { address: parseIp('10.0.0.77'), port: 80 }, AbortSignal.abort())).rejects.toMatchObject({
      code: 'CANCELLED',
    });
    expect(openDescriptors()).toBe(before);
  }));

it('serves UDP inside a namespace', () =>
  withWire(async (one, two) => {
    const server = createSocket('udp4');
    server.on('message', (message, { port, address }) => server.send(`${message} back`, port, address));
    server.bind({ fd: bindUdpIn(two.namespace, { address: parseIp('10.0.0.2'), port: 5353 }) });
    const client = createSocket('udp4');
    client.bind({ fd: bindUdpIn(one.namespace, { address: parseIp('10.0.0.1'), port: 0 }) });
    const answer = new Promise<string>((resolve) => client.once('message', (message) => resolve(String(message))));
    client.send('hello', 5353, '10.0.0.2');
    expect(await answer).toBe('hello back');
    client.close();
    server.close();
  }));

it('tells neighbours where an address is now', () =>
  withWire(async (one, two) => {
    const socket = NetlinkSocket.open({ namespace: two.namespace });
    const stale = parseMac('0a:00:00:00:00:99');
    const addresses = [parseIp('10.0.0.1'), parseIp('fd00::1')];
    const batch = new Batch();
    for (const address of addresses) replaceNeighbour(batch, { link: two.link.index, address, mac: stale, state: 'reachable' });
    socket.transact(batch);
    const { mac } = one.link;
    if (!mac) throw new Error('no MAC');
    // The kernel keeps a fresh ARP entry for a moment (`locktime`) whatever it hears, so announce until it is heard.
    const known = () => {
      announceAddresses(one.namespace, one.link.index, mac, addresses);
      return (['ipv4', 'ipv6'] as const).flatMap((family) =>
        listNeighbours(socket, { family, link: two.link.index })
          .filter(({ address }) => addresses.some(({ text }) => text === address.text))
          .map((neighbour) => neighbour.mac),
      );
    };
    await expect.poll(known, { timeout: 5000 }).toEqual([mac, mac]);
    socket.close();
  }));

it('cannot announce on an interface that is down', () =>
  withNamespaces(1, ({ namespace }) => {
    const socket = NetlinkSocket.open({ namespace });
    const batch = new Batch();
    createVeth(batch, { name: 'a', peer: { name: 'b' } });
    socket.transact(batch);
    const link = getLink(socket, 'a');
    socket.close();
    if (!link?.mac) throw new Error('no link');
    const { index, mac } = link;
    expect(errnoOf(failureOf(() => announceAddresses(namespace, index, mac, [parseIp('10.0.0.1')])))).toBe('ENETDOWN');
  }));

it('knows the number by which a link names the namespace of its other end', () => {
  const [near, far, stranger] = [randomName('nlt'), randomName('nlt'), randomName('nlt')].map((name) => createNamedNamespace(name));
  if (!near || !far || !stranger) throw new Error('no namespaces');
  const socket = NetlinkSocket.open({ namespace: near });
  try {
    expect(namespaceIdOf(socket, far)).toBeUndefined();
    const batch = new Batch();
    createVeth(batch, { name: 'here', peer: { name: 'there', namespace: far } });
    socket.transact(batch);
    const link = getLink(socket, 'here');
    expect(link?.peerNamespaceId).toBeDefined();
    expect(namespaceIdOf(socket, far)).toBe(link?.peerNamespaceId);
    expect(namespaceIdOf(socket, stranger)).toBeUndefined();
  } finally {
    socket.close();
    for (const namespace of [near, far, stranger]) {
      namespace.close();
      deleteNamedNamespace(basename(namespace.path));
    }
  }
});
