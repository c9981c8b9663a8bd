import { expect, it } from 'vitest';
import { parseCidr, parseIp } from '../../src/base/net/ip.ts';
import { parseMac } from '../../src/base/net/mac.ts';
import { type KernelEvent, KernelEvents } from '../../src/netlink/events.ts';
import { changeLink, createBridge, createVeth, deleteLink, getLink, getLinkOffThread } from '../../src/netlink/links.ts';
import { Batch } from '../../src/netlink/message.ts';
import { deleteAddress, replaceAddress } from '../../src/netlink/routing/addresses.ts';
import { replaceNeighbour } from '../../src/netlink/routing/neighbours.ts';
import { addRoute, deleteRoute, listRoutes, listRoutesOffThread, ourProtocol } from '../../src/netlink/routing/routes.ts';
import { NetlinkSocket } from '../../src/netlink/socket.ts';
import { openDescriptors, withNamespaces } from './netlink-fixture.ts';

function done(socket: NetlinkSocket, fill: (batch: Batch) => void): void {
  const batch = new Batch();
  fill(batch);
  socket.transact(batch);
}

function described(event: KernelEvent): string {
  switch (event.kind) {
    case 'link':
      return `${event.change} link ${event.link.name} ${event.link.state}`;
    case 'address':
      return `${event.change} address ${event.address.address.text}`;
    case 'route':
      return `${event.change} route ${event.route.destination.text}`;
    case 'rule':
      return `${event.change} rule to table ${event.rule.table}`;
    case 'neighbour':
      return `${event.change} neighbour ${event.neighbour.address.text}`;
    case 'netconf':
      return `set ${event.netconf.family} settings of ${event.netconf.link}`;
    case 'overrun':
      return 'overrun';
  }
}

it('omits the changes of one socket to addresses, routes and neighbours, and no others', () =>
  withNamespaces(1, async ({ namespace }) => {
    const [ours, others] = [NetlinkSocket.open({ namespace }), NetlinkSocket.open({ namespace })];
    done(ours, (batch) => createVeth(batch, { name: 'a', state: 'up', peer: { name: 'b' } }));
    done(ours, (batch) => changeLink(batch, 'b', { state: 'up' }));
    const link = getLink(ours, 'a')?.index;
    if (link === undefined) throw new Error('no link');
    const received: string[] = [];
    const events = KernelEvents.open({ kinds: ['link', 'address', 'route', 'neighbour'], namespace, notBy: ours.port }, (event) =>
      received.push(described(event)),
    );
    const change = (batch: Batch, network: number): void => {
      replaceAddress(batch, { link, address: parseIp(`10.${network}.0.1`), prefixLength: 24 });
      addRoute(batch, { destination: parseCidr(`10.${network}.8.0/24`), link });
      addRoute(batch, { destination: parseCidr(`fd00:${network}::/64`), link });
      replaceNeighbour(batch, { link, address: parseIp(`fd00:${network}::1`), mac: parseMac('0a:00:00:00:00:01') });
    };
    done(ours, (batch) => change(batch, 1));
    done(ours, (batch) => changeLink(batch, 'a', { mtu: 1400 }));
    done(others, (batch) => change(batch, 2));
    await expect
      .poll(() => received)
      .toEqual(expect.arrayContaining(['set link a up', 'set neighbour fd00:2::1', 'set route fd00:2::/64']));
    expect(received).toEqual(expect.arrayContaining(['set address 10.2.0.1', 'set route 10.2.8.0/24']));
    for (const kept of ['address 10.1.0.1', 'route 10.1.8.0/24', 'route fd00:1::/64', 'neighbour fd00:1::1'])
      expect(received).not.toContain(`set ${kept}`);
    events.close();
    for (const socket of [ours, others]) socket.close();
  }));

it('lists on a worker thread, while the loop continues', () =>
  withNamespaces(1, async ({ namespace }) => {
    const socket = NetlinkSocket.open({ namespace });
    done(socket, (batch) => createVeth(batch, { name: 'a', state: 'up', peer: { name: 'b' } }));
    done(socket, (batch) => changeLink(batch, 'b', { state: 'up' }));
    const link = getLink(socket, 'a')?.index;
    if (link === undefined) throw new Error('no link');
    done(socket, (batch) => {
      for (let index = 0; index < 2_000; index++)
        addRoute(batch, { destination: parseCidr(`100.64.${index >> 8}.${index & 0xff}/32`), link });
    });
    let turns = 0;
    let counting = setImmediate(turn);
    function turn(): void {
      turns++;
      counting = setImmediate(turn);
    }
    const found = await listRoutesOffThread(socket, { family: 'ipv4', protocol: ourProtocol });
    clearImmediate(counting);
    expect(found).toHaveLength(2_000);
    expect(found).toEqual(listRoutes(socket, { family: 'ipv4', protocol: ourProtocol }));
    expect(turns).toBeGreaterThan(3);
    expect(await listRoutesOffThread(socket, { family: 'ipv4', table: 77 })).toEqual([]);
    expect(await getLinkOffThread(socket, 'none')).toBeUndefined();
    socket.close();
  }));

it('receives events of links, addresses, routes and neighbours of a namespace', () =>
  withNamespaces(1, async ({ namespace }) => {
    const received: string[] = [];
    const events = KernelEvents.open({ kinds: ['link', 'address', 'route', 'neighbour'], namespace }, (event) =>
      received.push(described(event)),
    );
    const socket = NetlinkSocket.open({ namespace });
    done(socket, (batch) => createVeth(batch, { name: 'a', state: 'up', peer: { name: 'b' } }));
    const link = getLink(socket, 'a')?.index;
    if (link === undefined) throw new Error('no link');
    const address = { link, address: parseIp('10.0.0.1'), prefixLength: 24 };
    const route = { destination: parseCidr('10.9.0.0/16'), link };
    done(socket, (batch) => {
      changeLink(batch, 'b', { state: 'up' });
      replaceAddress(batch, address);
      addRoute(batch, route);
      replaceNeighbour(batch, { link, address: parseIp('10.0.0.2'), mac: parseMac('0a:00:00:00:00:01') });
      deleteRoute(batch, route);
      deleteAddress(batch, address);
      deleteLink(batch, 'a');
    });
    const expected = [
      'set link a up',
      'set link b up',
      'set address 10.0.0.1',
      'set route 10.9.0.0/16',
      'set neighbour 10.0.0.2',
      'deleted route 10.9.0.0/16',
      'deleted address 10.0.0.1',
      'deleted link a down',
      'deleted link b down',
    ];
    await expect.poll(() => received).toEqual(expect.arrayContaining(expected));
    const order = expected.map((text) => received.indexOf(text));
    expect(order).toEqual(order.toSorted((a, b) => a - b));
    socket.close();
    events.close();
  }));

it('does not treat a port that leaves a bridge as a deleted link', () =>
  withNamespaces(1, async ({ namespace }) => {
    const received: string[] = [];
    const socket = NetlinkSocket.open({ namespace });
    done(socket, (batch) => {
      createVeth(batch, { name: 'a', peer: { name: 'b' } });
      createBridge(batch, { name: 'br0' });
    });
    const events = KernelEvents.open({ kinds: ['link'], namespace }, (event) => received.push(described(event)));
    const master = getLink(socket, 'br0')?.index ?? 'none';
    done(socket, (batch) => changeLink(batch, 'a', { master }));
    done(socket, (batch) => changeLink(batch, 'a', { master: 'none' }));
    done(socket, (batch) => deleteLink(batch, 'br0'));
    await expect.poll(() => received).toContain('deleted link br0 down');
    expect(received).not.toContain('deleted link a down');
    socket.close();
    events.close();
  }));

it('reports lost events, and continues', () =>
  withNamespaces(1, async ({ namespace }) => {
    const received: string[] = [];
    const events = KernelEvents.open({ kinds: ['link'], namespace }, (event) => received.push(described(event)));
    const socket = NetlinkSocket.open({ namespace });
    done(socket, (batch) => createVeth(batch, { name: 'a', peer: { name: 'b' } }));
    // All in one tick, so that nothing is read meanwhile, and more than the queue takes.
    done(socket, (batch) => {
      for (let count = 0; count < 12_000; count++) changeLink(batch, 'a', { mtu: 1000 + (count % 2) });
    });
    await expect.poll(() => received, { timeout: 10_000 }).toContain('overrun');
    expect(received.filter((text) => text === 'overrun')).toHaveLength(1);
    done(socket, (batch) => deleteLink(batch, 'a'));
    await expect.poll(() => received, { timeout: 10_000 }).toContain('deleted link a down');
    socket.close();
    events.close();
  }));

it('survives garbage collection, and is silent once closed', () =>
  withNamespaces(1, async ({ namespace }) => {
    const before = openDescriptors();
    const received: string[] = [];
    const socket = NetlinkSocket.open({ namespace });
    const events = KernelEvents.open({ kinds: ['link'], namespace }, (event) => received.push(described(event)));
    for (let round = 0; round < 20; round++) {
      const garbage = Array.from({ length: 50 }, () => new Uint8Array(1 << 20));
      await new Promise((resolve) => setImmediate(resolve, garbage));
    }
    done(socket, (batch) => createVeth(batch, { name: 'a', peer: { name: 'b' } }));
    await expect.poll(() => received).toContain('set link a down');
    done(socket, (batch) => deleteLink(batch, 'a'));
    events.close();
    events.close();
    received.length = 0;
    await new Promise((resolve) => setImmediate(resolve));
    expect(received).toEqual([]);
    socket.close();
    expect(openDescriptors()).toBe(before);
  }));
