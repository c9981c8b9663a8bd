import { describe, expect, it } from 'vitest';
import { parseCidr, parseIp } from '../../src/base/net/ip.ts';
import { type Mac, parseMac } from '../../src/base/net/mac.ts';
import { errnoOf } from '../../src/netlink/errno.ts';
import { LinkRemover } from '../../src/netlink/link-remover.ts';
import {
  changeLink,
  createBridge,
  createVeth,
  decodeLink,
  deleteLink,
  getLink,
  type Link,
  linkStatistics,
  listLinks,
} from '../../src/netlink/links.ts';
import { Batch } from '../../src/netlink/message.ts';
import { deleteAddress, listAddresses, replaceAddress } from '../../src/netlink/routing/addresses.ts';
import { deleteNeighbour, listNeighbours, replaceNeighbour } from '../../src/netlink/routing/neighbours.ts';
import {
  addRoute,
  deleteRoute,
  listRoutes,
  lookUpRoute,
  mainTable,
  type NewRoute,
  ourProtocol,
  replaceRoute,
} from '../../src/netlink/routing/routes.ts';
import { addRule, deleteListedRule, deleteRule, listRules, type NewRule } from '../../src/netlink/routing/rules.ts';
import { selfTest } from '../../src/netlink/self-test.ts';
import { NetlinkSocket } from '../../src/netlink/socket.ts';
import { failureOf, inside, ip, type Lab, withNamespaces } from './netlink-fixture.ts';

const never = new AbortController().signal;
const mac = parseMac('0a:00:00:00:00:01');

/** A namespace with a socket in it, and a veth `a`–`b`, both up. */
function withVeth<T>(work: (given: { lab: Lab; socket: NetlinkSocket; a: Link; b: Link }) => T | Promise<T>): Promise<T> {
  return withNamespaces(1, async (lab) => {
    const socket = NetlinkSocket.open({ namespace: lab.namespace });
    try {
      done(socket, (batch) => {
        createVeth(batch, { name: 'a', state: 'up', peer: { name: 'b' } });
        changeLink(batch, 'b', { state: 'up' });
        changeLink(batch, 'lo', { state: 'up' });
      });
      return await work({ lab, socket, a: there(socket, 'a'), b: there(socket, 'b') });
    } finally {
      socket.close();
    }
  });
}

function done(socket: NetlinkSocket, fill: (batch: Batch) => void): void {
  const batch = new Batch();
  fill(batch);
  socket.transact(batch);
}

function there(socket: NetlinkSocket, name: string): Link {
  const link = getLink(socket, name);
  if (link === undefined) throw new Error(`no link ${name}`);
  return link;
}

it('passes the self-test', () => {
  selfTest();
});

describe('links', () => {
  it('are listed as iproute2 lists them', () =>
    withVeth(({ lab, socket, b }) => {
      done(socket, (batch) => createBridge(batch, { name: 'br0', mac: '0a:00:00:00:00:99' as Mac, state: 'up' }));
      done(socket, (batch) => changeLink(batch, b.index, { master: there(socket, 'br0').index, mac, mtu: 1400, alias: 'x/y', group: 7 }));
      const judged = ip(lab, 'link', 'show').map((link) => [
        link['ifindex'],
        link['ifname'],
        link['mtu'],
        link['address'],
        link['master'] ?? 'none',
        link['ifalias'],
        link['group'],
      ]);
      const names = new Map(listLinks(socket).map(({ index, name }) => [index, name]));
      const ours = listLinks(socket).map((link) => [
        link.index,
        link.name,
        link.mtu,
        link.mac,
        (link.master && names.get(link.master)) ?? 'none',
        link.alias,
        link.group === 0 ? 'default' : String(link.group),
      ]);
      expect(ours).toEqual(judged);
      expect(listLinks(socket, { kind: 'veth' }).map(({ name }) => name)).toEqual(['b', 'a']);
      expect(listLinks(socket, { master: there(socket, 'br0').index }).map(({ name }) => name)).toEqual(['b']);
    }));

  it('are renamed, moved to another namespace and freed from a bridge', () =>
    withNamespaces(2, (here, elsewhere) => {
      const socket = NetlinkSocket.open({ namespace: here.namespace });
      const other = NetlinkSocket.open({ namespace: elsewhere.namespace });
      done(socket, (batch) => {
        createBridge(batch, { name: 'br0' });
        createVeth(batch, { name: 'a', mtu: 1300, peer: { name: 'b', namespace: elsewhere.namespace, mac, mtu: 1300 } });
      });
      expect(getLink(other, 'b')).toMatchObject({ mac, mtu: 1300, state: 'down', carrier: false });
      done(socket, (batch) => changeLink(batch, 'a', { master: there(socket, 'br0').index }));
      done(socket, (batch) => changeLink(batch, there(socket, 'a').index, { name: 'c', master: 'none' }));
      expect(getLink(socket, 'c')?.master).toBeUndefined();
      done(socket, (batch) => changeLink(batch, 'c', { namespace: elsewhere.namespace }));
      expect(
        listLinks(other, { kind: 'veth' })
          .map(({ name }) => name)
          .toSorted(),
      ).toEqual(['b', 'c']);
      expect(getLink(socket, 'c')).toBeUndefined();
      socket.close();
      other.close();
    }));

  it('count their traffic', () =>
    withVeth(({ lab, socket, a }) => {
      done(socket, (batch) => replaceAddress(batch, { link: a.index, address: parseIp('10.0.0.1'), prefixLength: 24 }));
      done(socket, (batch) => replaceNeighbour(batch, { link: a.index, address: parseIp('10.0.0.2'), mac }));
      const before = linkStatistics(socket, 'a')?.sentPackets ?? 0n;
      inside(lab, 'bash', '-c', 'for i in 1 2 3; do echo x > /dev/udp/10.0.0.2/9; done');
      expect(linkStatistics(socket, 'a')?.sentPackets).toBeGreaterThanOrEqual(before + 3n);
      expect(linkStatistics(socket, 'nope')).toBeUndefined();
    }));

  it("report the kernel's error text", () =>
    withVeth(({ socket }) => {
      const failure = failureOf(() => done(socket, (batch) => changeLink(batch, 'a', { mtu: 1 })));
      expect(errnoOf(failure)).toBe('EINVAL');
      expect(String(failure)).toContain('mtu less than device minimum');
      expect(errnoOf(failureOf(() => done(socket, (batch) => deleteLink(batch, 'nope'))))).toBe('ENODEV');
    }));

  it('continue after a failed one, and name it', () =>
    withVeth(({ socket }) => {
      const batch = new Batch();
      changeLink(batch, 'a', { mtu: 1400 });
      changeLink(batch, 'nope', { mtu: 1400 });
      changeLink(batch, 'b', { mtu: 1400 });
      expect(socket.attempt(batch).map((failure) => failure && errnoOf(failure))).toEqual([undefined, 'ENODEV', undefined]);
      expect(failureOf(() => socket.transact(batch))).toMatchObject({ context: { index: 1, errno: 'ENODEV' } });
      expect(there(socket, 'b').mtu).toBe(1400);
    }));
});

it('reads a list again that changed while it was read', () =>
  withVeth(({ lab, socket }) => {
    done(socket, (batch) => {
      for (let index = 0; index < 100; index++) createVeth(batch, { name: `v${index}`, peer: { name: `w${index}` } });
    });
    let seen = 0;
    const names = socket.dump(
      18, // RTM_GETLINK
      'list links',
      (batch) => batch.u32(0).u32(0).u32(0).u32(0),
      (message) => {
        if (seen++ === 0) inside(lab, 'ip', 'link', 'delete', 'v99'); // after the first part of the list, before the last
        return decodeLink(message).name;
      },
    );
    expect(seen).toBeGreaterThan(names.length);
    expect(new Set(names).size).toBe(names.length);
    expect(names.filter((name) => name === 'v99' || name === 'w99')).toEqual([]);
    expect(names).toHaveLength(201);
  }));

describe('removing links', () => {
  it('removes many together, skips absent ones, and reports those that cannot be removed', () =>
    withVeth(async ({ lab, socket }) => {
      const names = Array.from({ length: 20 }, (_, index) => `v${index}`);
      done(socket, (batch) => {
        for (const name of names) createVeth(batch, { name, peer: { name: `${name}p` } });
      });
      const remover = new LinkRemover(NetlinkSocket.open({ namespace: lab.namespace }));
      const results = await Promise.allSettled([...names, 'nope', 'lo', 'v0', 'a'].map((name) => remover.remove(name, never)));
      expect(results.map((result) => (result.status === 'fulfilled' ? result.value : errnoOf(result.reason)))).toEqual([
        ...names.map(() => 'removed'),
        'absent',
        'ENOTSUP',
        'removed',
        'removed',
      ]);
      expect(listLinks(socket).map(({ name }) => name)).toEqual(['lo']);
      expect(await remover.remove('a', never)).toBe('absent');
      await remover.close();
    }));

  it('reuses a name that is being removed', () =>
    withVeth(async ({ lab, socket }) => {
      const remover = new LinkRemover(NetlinkSocket.open({ namespace: lab.namespace }));
      const first = remover.remove('a', never);
      await new Promise((resolve) => setImmediate(resolve)); // it is busy now
      const second = remover.remove('a', never);
      expect(await first).toBe('removed');
      done(socket, (batch) => createVeth(batch, { name: 'a', peer: { name: 'b' } }));
      const third = remover.remove('a', never); // requested after the new link was created, so it must be deleted
      await Promise.all([second, third]);
      expect(getLink(socket, 'a')).toBeUndefined();
      await remover.close();
    }));

  it('stops waiting, but not working, when its caller gives up', () =>
    withVeth(async ({ lab, socket }) => {
      const remover = new LinkRemover(NetlinkSocket.open({ namespace: lab.namespace }));
      const caller = new AbortController();
      const removal = remover.remove('a', caller.signal);
      caller.abort();
      await expect(removal).rejects.toMatchObject({ code: 'CANCELLED' });
      await remover.close();
      expect(getLink(socket, 'a')).toBeUndefined();
    }));
});

describe('addresses', () => {
  it('are set, listed and deleted in both families', () =>
    withVeth(({ lab, socket, a, b }) => {
      const wanted = [
        { link: a.index, address: parseIp('10.0.0.1'), prefixLength: 24 },
        { link: a.index, address: parseIp('10.0.0.9'), prefixLength: 32, prefixRoute: 'noPrefixRoute' },
        { link: a.index, address: parseIp('fd00::1'), prefixLength: 64, prefixRoute: 'noPrefixRoute' },
        { link: b.index, address: parseIp('fd00::2'), prefixLength: 64, duplicateDetection: 'wait' },
      ] as const;
      for (let twice = 0; twice < 2; twice++) done(socket, (batch) => wanted.forEach((address) => void replaceAddress(batch, address)));
      const listed = listAddresses(socket).filter(({ scope }) => scope === 'global');
      expect(listed.map(({ address, prefixRoute }) => `${address.text} ${prefixRoute}`).toSorted()).toEqual([
        '10.0.0.1 prefixRoute',
        '10.0.0.9 noPrefixRoute',
        'fd00::1 noPrefixRoute',
        'fd00::2 prefixRoute',
      ]);
      expect(listed.find(({ address }) => address.text === 'fd00::1')?.duplicateDetection).toBe('done');
      expect(listed.find(({ address }) => address.text === 'fd00::2')?.duplicateDetection).toBe('tentative');
      expect(ip(lab, '-6', 'route', 'show', 'fd00::/64').map(({ dev }) => dev)).toEqual(['b']);
      const [first] = wanted;
      done(socket, (batch) => deleteAddress(batch, first));
      expect(listAddresses(socket, { link: a.index, family: 'ipv4' }).map(({ address }) => address.text)).toEqual(['10.0.0.9']);
      expect(errnoOf(failureOf(() => done(socket, (batch) => deleteAddress(batch, first))))).toBe('EADDRNOTAVAIL');
    }));
});

describe('routes', () => {
  const v4 = (text: string, more: Partial<NewRoute> = {}): NewRoute => ({ destination: parseCidr(text), ...more });

  it('are those of iproute2', () =>
    withVeth(({ lab, socket, a }) => {
      const link = a.index;
      done(socket, (batch) => replaceAddress(batch, { link, address: parseIp('10.0.0.1'), prefixLength: 24 }));
      done(socket, (batch) => {
        addRoute(
          batch,
          v4('10.2.0.0/16', { gateway: parseIp('10.2.0.1'), link, onLink: true, mtu: 1400, metric: 5, source: parseIp('10.0.0.1') }),
        );
        addRoute(batch, v4('10.3.0.0/16', { link }));
        addRoute(batch, v4('10.4.0.0/16', { kind: 'blackhole' }));
        addRoute(batch, v4('fd00:2::/64', { gateway: parseIp('fd00:2::1'), link, onLink: true, table: 1000 }));
      });
      expect(ip(lab, '-4', 'route', 'show', 'proto', String(ourProtocol))).toMatchObject([
        { dst: '10.2.0.0/16', gateway: '10.2.0.1', dev: 'a', prefsrc: '10.0.0.1', metric: 5, flags: ['onlink'], metrics: [{ mtu: 1400 }] },
        { dst: '10.3.0.0/16', dev: 'a', scope: 'link' },
        { type: 'blackhole', dst: '10.4.0.0/16' },
      ]);
      expect(ip(lab, '-6', 'route', 'show', 'table', '1000')).toMatchObject([{ dst: 'fd00:2::/64', gateway: 'fd00:2::1', dev: 'a' }]);
      const ours = listRoutes(socket, { family: 'ipv4', protocol: ourProtocol });
      expect(
        ours.map(({ destination, kind, onLink, mtu, metric, unmodelled }) => [destination.text, kind, onLink, mtu, metric, unmodelled]),
      ).toEqual([
        ['10.2.0.0/16', 'unicast', true, 1400, 5, []],
        ['10.3.0.0/16', 'unicast', false, undefined, 0, []],
        ['10.4.0.0/16', 'blackhole', false, undefined, 0, []],
      ]);
      expect(listRoutes(socket, { family: 'ipv6', table: 1000 }).map(({ gateway }) => gateway?.text)).toEqual(['fd00:2::1']);
      expect(listRoutes(socket, { family: 'ipv4', table: 1000 })).toEqual([]);
      expect(lookUpRoute(socket, parseIp('10.2.3.4'))).toMatchObject({ gateway: parseIp('10.2.0.1'), link });
      expect(lookUpRoute(socket, parseIp('192.0.2.1'))).toBeUndefined();
    }));

  it('are replaced in place and deleted only as described', () =>
    withVeth(({ socket, a }) => {
      const route = (gateway: string) => v4('fd00:5::/64', { gateway: parseIp(gateway), link: a.index, onLink: true, metric: 10 });
      const listed = () => listRoutes(socket, { family: 'ipv6', protocol: ourProtocol }).map(({ gateway }) => gateway?.text);
      done(socket, (batch) => replaceRoute(batch, route('fd00:5::1')));
      done(socket, (batch) => replaceRoute(batch, route('fd00:5::2')));
      expect(listed()).toEqual(['fd00:5::2']);
      expect(errnoOf(failureOf(() => done(socket, (batch) => addRoute(batch, route('fd00:5::2')))))).toBe('EEXIST');
      expect(errnoOf(failureOf(() => done(socket, (batch) => deleteRoute(batch, route('fd00:5::1')))))).toBe('ESRCH');
      done(socket, (batch) => deleteRoute(batch, route('fd00:5::2')));
      expect(listed()).toEqual([]);
    }));

  it('over several next hops are read, with fields that have no place here', () =>
    withVeth(({ lab, socket, a, b }) => {
      inside(
        lab,
        'ip',
        'route',
        'add',
        '10.9.0.0/16',
        'nexthop',
        'via',
        '10.9.0.1',
        'dev',
        'a',
        'weight',
        '3',
        'onlink',
        'nexthop',
        'dev',
        'b',
      );
      inside(lab, 'ip', 'route', 'add', '10.8.0.0/16', 'via', 'inet6', 'fe80::1', 'dev', 'a');
      const [via6, multipath] = listRoutes(socket, { family: 'ipv4', table: mainTable });
      expect(via6?.unmodelled).toEqual([18]);
      expect(multipath?.nextHops).toEqual([
        { link: a.index, gateway: parseIp('10.9.0.1'), weight: 3 },
        { link: b.index, gateway: undefined, weight: 1 },
      ]);
    }));

  it('are added by thousands, and neighbours with them', () =>
    withVeth(({ lab, socket, a }) => {
      const peers = Array.from({ length: 3000 }, (_, index) => ({
        cidr: parseCidr(`10.${index >> 8}.${index & 255}.0/24`),
        gateway: parseIp(`10.${index >> 8}.${index & 255}.1`),
      }));
      done(socket, (batch) => {
        for (const { cidr, gateway } of peers) {
          replaceNeighbour(batch, { link: a.index, address: gateway, mac });
          replaceRoute(batch, { destination: cidr, gateway, link: a.index, onLink: true });
        }
      });
      expect(listRoutes(socket, { family: 'ipv4', protocol: ourProtocol })).toHaveLength(3000);
      expect(
        listNeighbours(socket, { family: 'ipv4', link: a.index }).filter(
          ({ state, protocol }) => state === 'permanent' && protocol === ourProtocol,
        ),
      ).toHaveLength(3000);
      expect(ip(lab, '-4', 'neigh', 'show', 'nud', 'permanent')).toHaveLength(3000);
    }));

  it('are read completely although they change meanwhile', () =>
    withVeth(async ({ lab, socket, a }) => {
      const other = NetlinkSocket.open({ namespace: lab.namespace });
      done(socket, (batch) => {
        for (let index = 0; index < 2000; index++) addRoute(batch, v4(`10.${index >> 8}.${index & 255}.0/24`, { link: a.index }));
      });
      for (let round = 0; round < 5; round++) {
        const batch = new Batch();
        for (let index = 0; index < 64; index++) replaceRoute(batch, v4(`10.0.${index}.0/24`, { link: a.index, mtu: 1000 + round }));
        const changing = other.transactOffThread(batch);
        expect(listRoutes(socket, { family: 'ipv4', protocol: ourProtocol })).toHaveLength(2000);
        await changing;
      }
      other.close();
    }));
});

describe('neighbours', () => {
  it('are set, listed and deleted in both families', () =>
    withVeth(({ lab, socket, a }) => {
      const link = a.index;
      done(socket, (batch) => {
        replaceNeighbour(batch, { link, address: parseIp('10.0.0.2'), mac });
        replaceNeighbour(batch, { link, address: parseIp('fd00::2'), mac });
        replaceNeighbour(batch, { link, address: parseIp('10.0.0.3'), mac, state: 'stale' });
      });
      expect(ip(lab, 'neigh', 'show', 'to', '10.0.0.2')).toMatchObject([{ dev: 'a', lladdr: mac, state: ['PERMANENT'] }]);
      expect(ip(lab, 'neigh', 'show', 'to', 'fd00::2')).toMatchObject([{ dev: 'a', lladdr: mac, state: ['PERMANENT'] }]);
      expect(listNeighbours(socket, { family: 'ipv4', link })).toEqual(
        expect.arrayContaining([
          { link, address: parseIp('10.0.0.2'), mac, state: 'permanent', protocol: ourProtocol },
          { link, address: parseIp('10.0.0.3'), mac, state: 'stale', protocol: ourProtocol },
        ]),
      );
      done(socket, (batch) => deleteNeighbour(batch, { link, address: parseIp('fd00::2') }));
      expect(listNeighbours(socket, { family: 'ipv6', link }).filter(({ state }) => state === 'permanent')).toEqual([]);
      expect(errnoOf(failureOf(() => done(socket, (batch) => deleteNeighbour(batch, { link, address: parseIp('fd00::2') }))))).toBe(
        'ENOENT',
      );
    }));
});

describe('rules of the routing policy', () => {
  it.each(['ipv4', 'ipv6'] as const)('of %s are added, listed as the kernel has them, and deleted', (family) =>
    withVeth(({ lab, socket }) => {
      const flag = family === 'ipv4' ? '-4' : '-6';
      const marked: NewRule = { family, priority: 94, table: 24_158, mark: 0x1000 };
      const plain: NewRule = { family, priority: 32_800, table: 24_158 };
      const own = () => listRules(socket, family).filter(({ protocol }) => protocol === ourProtocol);
      done(socket, (batch) => {
        for (const rule of [marked, plain]) addRule(batch, rule);
      });
      expect(inside(lab, 'ip', flag, 'rule', 'show')).toContain('94:\tfrom all fwmark 0x1000/0x1000 lookup 24158 proto 94');
      expect(own()).toMatchObject([marked, plain].map((rule) => ({ ...rule, protocol: ourProtocol, unmodelled: false })));
      expect(errnoOf(failureOf(() => done(socket, (batch) => addRule(batch, marked))))).toBe('EEXIST');
      for (const more of [
        ['iif', 'lo'],
        ['not', 'fwmark', '1'],
        ['suppress_prefixlength', '0'],
        ['fwmark', '0x1000/0x3000'],
      ]) {
        const place = ['priority', '95', 'proto', '94', 'lookup', '77'];
        inside(lab, 'ip', flag, 'rule', 'add', ...more, ...place);
        expect(
          own().map(({ unmodelled }) => unmodelled),
          more.join(' '),
        ).toEqual([false, true, false]);
        const foreign = listRules(socket, family).find(({ priority }) => priority === 95);
        done(socket, (batch) => foreign && deleteListedRule(batch, foreign));
        expect(own()).toHaveLength(2);
      }
      done(socket, (batch) => {
        for (const rule of [marked, plain]) deleteRule(batch, rule);
      });
      expect(own()).toEqual([]);
      expect(errnoOf(failureOf(() => done(socket, (batch) => deleteRule(batch, plain))))).toBe('ENOENT');
    }),
  );
});
