import { readdirSync, readlinkSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseCidr, parseIp } from '../../src/base/net/ip.ts';
import { parseMac } from '../../src/base/net/mac.ts';
import { LinkRemover } from '../../src/netlink/link-remover.ts';
import { createBridge, getLink } from '../../src/netlink/links.ts';
import { Batch } from '../../src/netlink/message.ts';
import {
  createPodInterface,
  type HostLinks,
  type PodInterfaceSpec,
  readPodInterface,
} from '../../src/netlink/pod-interfaces/pod-interface.ts';
import { NetlinkSocket } from '../../src/netlink/socket.ts';
import { readSysctl } from '../../src/netlink/sysctl.ts';
import { inside, ip, type Lab, openDescriptors, randomName, withNamespaces } from './netlink-fixture.ts';

const never = new AbortController().signal;
const gatewayMac = parseMac('0a:00:00:00:00:fe');
let host: HostLinks & { readonly remover: LinkRemover };

beforeAll(() => {
  host = { socket: NetlinkSocket.open(), remover: LinkRemover.open() };
});

afterAll(async () => {
  await host.remover.close();
  host.socket.close();
});

function spec(lab: Pick<Lab, 'path'>, change: Partial<PodInterfaceSpec> = {}): PodInterfaceSpec {
  return {
    netnsPath: lab.path,
    hostName: randomName('h'),
    podName: 'eth0',
    mac: parseMac('0a:00:00:00:00:01'),
    mtu: 1450,
    addresses: [
      { address: parseIp('10.10.1.5'), prefixLength: 24 },
      { address: parseIp('fd00:10::5'), prefixLength: 64 },
    ],
    gateways: [
      { address: parseIp('10.10.1.1'), mac: gatewayMac },
      { address: parseIp('fd00:10::1'), mac: gatewayMac },
    ],
    alias: 'default/web-0',
    hostEnd: 'layer2Only',
    checksumOffload: 'off',
    ...change,
  };
}

async function withPod<T>(wanted: PodInterfaceSpec, work: () => T | Promise<T>): Promise<T> {
  await createPodInterface(host, wanted, never);
  try {
    return await work();
  } finally {
    await host.remover.remove(wanted.hostName, never);
  }
}

describe('a pod interface', () => {
  it('agrees with iproute2 and ethtool, in both families', () =>
    withNamespaces(1, async (lab) => {
      const wanted = spec(lab);
      await withPod(wanted, () => {
        const [eth0] = ip(lab, 'address', 'show', 'eth0');
        expect(eth0).toMatchObject({ address: wanted.mac, mtu: 1450, operstate: 'UP' });
        expect(eth0?.['addr_info']).toEqual(
          expect.arrayContaining([
            expect.objectContaining({ local: '10.10.1.5', prefixlen: 24 }),
            expect.objectContaining({ local: 'fd00:10::5', prefixlen: 64, nodad: true }),
          ]),
        );
        expect(ip(lab, 'route', 'show', 'default')).toMatchObject([{ gateway: '10.10.1.1', dev: 'eth0' }]);
        expect(ip(lab, '-6', 'route', 'show', 'default')).toMatchObject([{ gateway: 'fd00:10::1', dev: 'eth0' }]);
        expect(ip(lab, 'neigh', 'show', 'nud', 'permanent')).toMatchObject([
          { dst: '10.10.1.1', lladdr: gatewayMac },
          { dst: 'fd00:10::1', lladdr: gatewayMac },
        ]);
        expect(ip(lab, 'link', 'show', 'lo')[0]?.['flags']).toContain('UP');
        expect(inside(lab, 'ethtool', '-k', 'eth0')).toContain('tx-checksumming: off');
        const [hostEnd] = ip('here', 'link', 'show', wanted.hostName);
        expect(hostEnd).toMatchObject({ ifalias: 'default/web-0', mtu: 1450, operstate: 'UP' });
        expect(hostEnd?.['flags']).toContain('NOARP');
        expect(ip('here', 'address', 'show', wanted.hostName)[0]?.['addr_info']).toEqual([]);
        expect(readSysctl(['net', 'ipv6', 'conf', wanted.hostName, 'disable_ipv6'])).toBe('1');
      });
    }));

  it('is read back as it was created', () =>
    withNamespaces(1, async (lab) => {
      const wanted = spec(lab);
      await withPod(wanted, () => {
        const state = readPodInterface(lab.path, 'eth0');
        const hostLink = getLink(host.socket, wanted.hostName);
        expect(state?.link).toMatchObject({ mac: wanted.mac, mtu: 1450, state: 'up', carrier: true, peerIndex: hostLink?.index });
        expect(state?.offloads.transmitChecksum).toBe('off');
        expect(state?.addresses.filter(({ scope }) => scope === 'global').map(({ address }) => address.text)).toEqual([
          '10.10.1.5',
          'fd00:10::5',
        ]);
        expect(state?.routes.filter(({ gateway }) => gateway).map(({ destination }) => destination.text)).toEqual(['0.0.0.0/0', '::/0']);
        expect(state?.neighbours.filter(({ state }) => state === 'permanent').map(({ mac }) => mac)).toEqual([gatewayMac, gatewayMac]);
        expect(readPodInterface(lab.path, 'eth1')).toBeUndefined();
      });
      expect(readPodInterface(lab.path, 'eth0')).toBeUndefined();
    }));

  it('reaches a gateway outside of its networks, and other routes', () =>
    withNamespaces(1, async (lab) => {
      const wanted = spec(lab, {
        addresses: [{ address: parseIp('10.10.1.5'), prefixLength: 32 }],
        gateways: [{ address: parseIp('169.254.1.1'), mac: gatewayMac }],
        routes: [
          { destination: parseCidr('192.0.2.0/24') },
          { destination: parseCidr('198.51.100.0/24'), gateway: parseIp('169.254.1.1') },
        ],
        hostEnd: 'plain',
        checksumOffload: 'keep',
      });
      await withPod(wanted, () => {
        expect(ip(lab, 'route', 'show')).toMatchObject([
          { dst: 'default', gateway: '169.254.1.1', flags: ['onlink'] },
          { dst: '192.0.2.0/24', scope: 'link' },
          { dst: '198.51.100.0/24', gateway: '169.254.1.1', flags: ['onlink'] },
        ]);
        expect(inside(lab, 'ethtool', '-k', 'eth0')).toContain('tx-checksumming: on');
        expect(ip('here', 'link', 'show', wanted.hostName)[0]?.['flags']).not.toContain('NOARP');
      });
    }));

  it('gets IPv6 if the runtime disabled it', () =>
    withNamespaces(1, async (lab) => {
      inside(lab, 'sysctl', '-qw', 'net.ipv6.conf.all.disable_ipv6=1', 'net.ipv6.conf.default.disable_ipv6=1');
      await withPod(spec(lab), () => {
        expect(ip(lab, '-6', 'route', 'show', 'default')).toMatchObject([{ gateway: 'fd00:10::1' }]);
      });
    }));
});

describe('a second interface of a pod', () => {
  const second = (lab: Lab, change: Partial<PodInterfaceSpec> = {}) =>
    spec(lab, {
      podName: 'net1',
      mac: parseMac('0a:00:00:00:00:02'),
      addresses: [
        { address: parseIp('10.10.1.6'), prefixLength: 24 },
        { address: parseIp('fd00:10::6'), prefixLength: 64 },
      ],
      routes: [{ destination: parseCidr('198.51.100.0/24'), gateway: parseIp('10.10.1.1') }],
      ...change,
    });
  const mainRoutes = (lab: Lab) => ['-4', '-6'].map((family) => ip(lab, family, 'route', 'show', 'dev', 'eth0'));

  it('takes nothing from the first, and answers from its own addresses', () =>
    withNamespaces(1, async (lab) => {
      await withPod(spec(lab), async () => {
        const before = mainRoutes(lab);
        const wanted = second(lab);
        const { podIndex, routeTables } = await createPodInterface(host, wanted, never);
        const table = 10_000 + podIndex;
        expect(routeTables).toEqual({ ipv4: table, ipv6: table });
        expect(mainRoutes(lab)).toEqual(before);
        const route = (...words: string[]) => ip(lab, 'route', 'get', ...words)[0];
        expect(route('192.0.2.1')).toMatchObject({ gateway: '10.10.1.1', dev: 'eth0', prefsrc: '10.10.1.5' });
        expect(route('10.10.1.9')).toMatchObject({ dev: 'eth0' });
        expect(route('192.0.2.1', 'from', '10.10.1.6')).toMatchObject({ gateway: '10.10.1.1', dev: 'net1', table: String(table) });
        expect(route('10.10.1.9', 'from', '10.10.1.6')).toMatchObject({ dev: 'net1' });
        expect(route('2001:db8::1')).toMatchObject({ gateway: 'fd00:10::1', dev: 'eth0' });
        expect(route('2001:db8::1', 'from', 'fd00:10::6')).toMatchObject({ gateway: 'fd00:10::1', dev: 'net1' });
        expect(route('192.0.2.1', 'oif', 'net1')).toMatchObject({ dev: 'net1', gateway: '10.10.1.1' });
        expect(route('198.51.100.7')).toMatchObject({ dev: 'net1' });
        await host.remover.remove(wanted.hostName, never);
        expect(mainRoutes(lab)).toEqual(before);
        expect(route('192.0.2.1')).toMatchObject({ dev: 'eth0' });
      });
    }));

  it('is created and deleted with the same address any number of times', () =>
    withNamespaces(1, async (lab) => {
      await withPod(spec(lab), async () => {
        for (let again = 0; again < 3; again++) {
          const wanted = second(lab);
          await createPodInterface(host, wanted, never);
          expect(ip(lab, 'route', 'get', '192.0.2.1', 'from', '10.10.1.6')[0]).toMatchObject({ dev: 'net1' });
          await host.remover.remove(wanted.hostName, never);
        }
      });
    }));

  it('is the first of a family that the pod did not have', () =>
    withNamespaces(1, async (lab) => {
      const [v4, v6] = [spec(lab).addresses.slice(0, 1), spec(lab).addresses.slice(1)];
      const [gateway4, gateway6] = [spec(lab).gateways.slice(0, 1), spec(lab).gateways.slice(1)];
      await withPod(spec(lab, { addresses: v4, gateways: gateway4 }), async () => {
        const wanted = second(lab, { addresses: v6, gateways: gateway6, routes: [] });
        expect(await createPodInterface(host, wanted, never)).toMatchObject({ routeTables: {} });
        expect(ip(lab, '-6', 'route', 'show', 'default')).toMatchObject([{ dev: 'net1' }]);
        await host.remover.remove(wanted.hostName, never);
      });
    }));
});

describe('an interface that cannot be created', () => {
  it('reports a name that is in use in the pod, and leaves nothing', () =>
    withNamespaces(1, async (lab) => {
      const inPod = NetlinkSocket.open({ namespace: lab.namespace });
      const batch = new Batch();
      createBridge(batch, { name: 'eth0' });
      inPod.transact(batch);
      inPod.close();
      const wanted = spec(lab);
      await expect(createPodInterface(host, wanted, never)).rejects.toMatchObject({
        code: 'REFUSED',
        context: { errno: 'EEXIST', conflict: 'podName' },
      });
      expect(getLink(host.socket, wanted.hostName)).toBeUndefined();
    }));

  it('reports a name that is in use on the node, and keeps the present interface', () =>
    withNamespaces(2, async (lab, other) => {
      const wanted = spec(lab);
      await withPod(wanted, async () => {
        const again = spec(other, { hostName: wanted.hostName });
        await expect(createPodInterface(host, again, never)).rejects.toMatchObject({ context: { errno: 'EEXIST', conflict: 'hostName' } });
        expect(readPodInterface(lab.path, 'eth0')?.link.state).toBe('up');
        expect(readPodInterface(other.path, 'eth0')).toBeUndefined();
      });
    }));

  it('is undone when the pod side fails half way', () =>
    withNamespaces(1, async (lab) => {
      const gateway = { address: parseIp('10.10.1.1') };
      const wanted = spec(lab, { gateways: [gateway, gateway] }); // the second default route cannot be added
      await expect(createPodInterface(host, wanted, never)).rejects.toMatchObject({
        code: 'REFUSED',
        message: expect.stringContaining('add route to 0.0.0.0/0'),
        context: { errno: 'EEXIST' },
      });
      expect(getLink(host.socket, wanted.hostName)).toBeUndefined();
      expect(ip(lab, 'link', 'show').map(({ ifname }) => ifname)).toEqual(['lo']);
    }));

  it('is rejected before anything is done', () =>
    withNamespaces(1, async (lab) => {
      const refused = (change: Partial<PodInterfaceSpec>) => createPodInterface(host, spec(lab, change), never);
      await expect(refused({ netnsPath: '/proc/self/ns/net' })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
      await expect(refused({ netnsPath: '/run/netns/none-such' })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
      await expect(refused({ podName: 'a/b' })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
      await expect(refused({ hostName: 'much-too-long-for-it' })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
      await expect(createPodInterface(host, spec(lab), AbortSignal.abort())).rejects.toMatchObject({ code: 'CANCELLED' });
    }));
});

it('leaks no descriptor in 2,000 lives of a pod interface, good and bad', { timeout: 300_000 }, () =>
  withNamespaces(1, async (lab) => {
    await withPod(spec(lab), () => {});
    const before = openDescriptors();
    const gateway = { address: parseIp('10.10.1.1') };
    for (let round = 0; round < 250; round++) {
      const names = Array.from({ length: 8 }, (_, index) => spec(lab, { podName: `p${index}`, addresses: [], gateways: [] }));
      await Promise.all(names.map((wanted) => createPodInterface(host, wanted, never)));
      await Promise.all(names.map(({ hostName }) => host.remover.remove(hostName, never)));
      if (round % 50 === 0) await expect(createPodInterface(host, spec(lab, { gateways: [gateway, gateway] }), never)).rejects.toThrow();
      if (round % 50 === 0) await expect(createPodInterface(host, spec(lab, { netnsPath: '/etc/passwd' }), never)).rejects.toThrow();
    }
    expect(openDescriptors()).toBe(before);
    expect(ip(lab, 'link', 'show').map(({ ifname }) => ifname)).toEqual(['lo']);
  }),
);

it('leaves every thread of this process outside', () => {
  const homes = new Set(readdirSync('/proc/self/task').map((task) => readlinkSync(`/proc/self/task/${task}/ns/net`)));
  expect(homes.size).toBe(1);
});
