import { execFileSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { parseCidr, parseIp } from '../../src/base/net/ip.ts';
import { parseMac } from '../../src/base/net/mac.ts';
import { nothing, type Wanted } from '../../src/dataplane/desired/host-entries.ts';
import { externalRouting } from '../../src/dataplane/pipeline/well-known.ts';
import { type HostEntry, type HostKey, hostEntries, sameHostEntry } from '../../src/dataplane/targets/host/host-entry.ts';
import { HostTarget } from '../../src/dataplane/targets/host/host-target.ts';
import { createNamedNamespace, deleteNamedNamespace } from '../../src/netlink/namespace.ts';
import { randomName } from '../integration/netlink-fixture.ts';
import { type Specimen, targetContract } from './target.ts';

const dev = 'gw0';
const mac = parseMac('0e:00:00:00:01:01');

function host(part: Partial<Wanted>): ReadonlyMap<HostKey, HostEntry> {
  return hostEntries({ ...nothing, ...part });
}

async function openHost(
  beforeRoutes?: () => Promise<void>,
): Promise<Specimen<HostKey, HostEntry> & { readonly ip: (...words: readonly string[]) => string }> {
  const name = randomName('nlc');
  const namespace = createNamedNamespace(name);
  const target = new HostTarget(dev, { namespace, ...(beforeRoutes ? { beforeRoutes } : {}) });
  const ip = (...words: readonly string[]): string => execFileSync('ip', ['-n', name, ...words], { encoding: 'utf8' });
  const makeGateway = (): void => {
    ip('link', 'add', dev, 'address', mac, 'type', 'veth', 'peer', 'name', 'far0');
    ip('link', 'set', 'far0', 'up');
  };
  makeGateway();
  ip('link', 'add', 'other0', 'type', 'veth', 'peer', 'name', 'far1');
  ip('link', 'set', 'far1', 'up');
  ip('link', 'set', 'other0', 'up');
  ip('address', 'add', '198.51.100.1/24', 'dev', 'other0');
  ip('address', 'add', 'fd00:77::1/64', 'dev', 'other0', 'nodad');
  ip('neighbour', 'add', '198.51.100.9', 'lladdr', '0e:00:00:00:09:09', 'dev', 'other0', 'nud', 'permanent');
  ip('route', 'add', '10.20.0.0/16', 'via', '198.51.100.7', 'proto', 'static');
  // The same destination as one of ours, with another metric: foreign.
  ip('route', 'add', '10.10.4.0/22', 'via', '198.51.100.7', 'proto', 'static', 'metric', '50');
  ip('rule', 'add', 'fwmark', '0x1000/0x1000', 'lookup', String(externalRouting.table), 'priority', '77');
  return {
    ip,
    target,
    equal: sameHostEntry,
    base: host({ links: [{ name: dev, mtu: 1450, mac }], addresses: [{ dev, ip: parseIp('10.10.0.1'), prefixLength: 22 }] }),
    entries: host({
      addresses: [
        { dev, ip: parseIp('fd00:10::1'), prefixLength: 64 },
        { dev, ip: parseIp('10.10.0.2'), prefixLength: 22 },
      ],
      neighbours: [
        { dev, ip: parseIp('10.10.4.1'), mac },
        { dev, ip: parseIp('fd00:10:0:1::1'), mac },
      ],
      routes: [
        { destination: parseCidr('10.10.4.0/22'), via: parseIp('10.10.4.1'), dev },
        { destination: parseCidr('fd00:10:0:1::/64'), via: parseIp('fd00:10:0:1::1'), dev },
        { destination: parseCidr('10.96.0.0/16'), dev, src: parseIp('10.10.0.1') },
        { destination: parseCidr('10.10.8.0/22'), via: parseIp('198.51.100.8'), dev: 'other0', src: parseIp('10.10.0.1'), exclusive: true },
        { destination: parseCidr('10.10.12.0/22'), via: parseIp('198.51.100.8'), dev: 'other0', exclusive: true },
        { destination: parseCidr('fd00:10:0:8::/64'), via: parseIp('fd00:77::8'), dev: 'other0', exclusive: true },
        { destination: parseCidr('10.10.8.0/21'), kind: 'blackhole', dev: 'lo', metric: 4096, exclusive: true },
        { destination: parseCidr('10.10.4.0/22'), kind: 'blackhole', dev: 'lo', metric: 4096, exclusive: true },
        { destination: parseCidr('fd00:10:0:8::/64'), kind: 'blackhole', dev: 'lo', metric: 4096, exclusive: true },
        { destination: parseCidr('10.96.0.0/16'), dev, table: externalRouting.table },
        { destination: parseCidr('fd00:10:0:9::/64'), via: parseIp('fd00:10:0:1::1'), dev, table: externalRouting.table },
      ],
      rules: [
        { family: 'ipv4', priority: 94, table: externalRouting.table, mark: externalRouting.mark },
        { family: 'ipv4', priority: 32_800, table: externalRouting.table },
        { family: 'ipv6', priority: 94, table: externalRouting.table, mark: externalRouting.mark },
      ],
    }),
    changes: host({
      addresses: [
        { dev, ip: parseIp('fd00:10::1'), prefixLength: 120 },
        { dev, ip: parseIp('10.10.0.2'), prefixLength: 24 },
      ],
      neighbours: [{ dev, ip: parseIp('10.10.4.1'), mac: parseMac('0e:00:00:00:02:02') }],
      routes: [
        { destination: parseCidr('10.10.4.0/22'), via: parseIp('10.10.4.2'), dev },
        { destination: parseCidr('fd00:10:0:1::/64'), via: parseIp('fd00:10:0:1::2'), dev },
        { destination: parseCidr('10.10.8.0/22'), via: parseIp('198.51.100.9'), dev: 'other0', exclusive: true },
        { destination: parseCidr('fd00:10:0:8::/64'), via: parseIp('fd00:77::9'), dev: 'other0', exclusive: true },
        // From one interface to another, as when a peer's traffic moves between the tunnel and the link.
        { destination: parseCidr('10.10.12.0/22'), via: parseIp('10.10.4.1'), dev },
      ],
    }),
    impossible: host({ routes: [{ destination: parseCidr('10.97.0.0/16'), dev, src: parseIp('203.0.113.1') }] }),
    foreign: () =>
      ['link show other0', 'address show dev other0', 'route show proto static', 'neighbour show dev other0', 'rule show priority 77']
        .map((words) => ip(...words.split(' ')))
        .join(''),
    disturb: async () => {
      ip('route', 'del', '10.10.8.0/22', 'proto', '0x5e');
      ip('neighbour', 'del', '10.10.4.1', 'dev', dev);
      ip('address', 'add', '10.10.0.2/25', 'dev', dev);
    },
    wipe: async () => {
      ip('address', 'flush', 'dev', dev);
      ip('neighbour', 'flush', 'dev', dev, 'nud', 'permanent');
    },
    die: async () => void ip('link', 'del', dev),
    revive: async () => makeGateway(),
    close: async () => {
      await target.close();
      namespace.close();
      deleteNamedNamespace(name);
    },
  };
}

targetContract('HostTarget', openHost, { refusal: 'parts' });

describe('an exclusive route of HostTarget', () => {
  const destinations = ['10.10.8.0/22', 'fd00:10:0:8::/64'];
  const route = (text: string, last: number): Partial<Wanted> => {
    const destination = parseCidr(text);
    const via = parseIp(destination.family === 'ipv4' ? `198.51.100.${last}` : `fd00:77::${last}`);
    return { routes: [{ destination, via, dev: 'other0', exclusive: true }] };
  };
  const put = (wanted: Partial<Wanted>) => ({ put: host(wanted), remove: new Set<HostKey>() });

  it.each(destinations)('leaves another program’s route as it is and names it, %s', async (destination) => {
    const specimen = await openHost();
    try {
      const { target, ip } = specimen;
      const signal = AbortSignal.timeout(20_000);
      const family = destination.includes(':') ? '-6' : '-4';
      const via = destination.includes(':') ? 'fd00:77::7' : '198.51.100.7';
      ip(family, 'route', 'add', destination, 'via', via, 'dev', 'other0', 'onlink', 'proto', 'bird');
      const before = ip(family, 'route', 'show');
      const refusal = target.apply(put(route(destination, 8)), signal);
      await expect(refusal).rejects.toThrow(`a route to ${destination} belongs to another program (protocol bird)`);
      expect(ip(family, 'route', 'show')).toBe(before);
      ip(family, 'route', 'del', destination, 'proto', 'bird');
      await target.apply(put(route(destination, 8)), signal);
      expect(ip(family, 'route', 'show', destination)).toContain(`dev other0 proto 94`);
    } finally {
      await specimen.close();
    }
  });

  it('waits for its interface to be up, and to exist, while other entries are applied', async () => {
    const specimen = await openHost();
    try {
      const { target, ip } = specimen;
      const signal = AbortSignal.timeout(20_000);
      await target.apply({ put: specimen.base, remove: new Set<HostKey>() }, signal);
      ip('link', 'set', 'other0', 'down');
      await expect(target.apply(put(route('10.10.8.0/22', 8)), signal)).rejects.toMatchObject({ code: 'UNAVAILABLE' });
      ip('link', 'set', 'other0', 'up');
      const missing = { destination: parseCidr('10.10.16.0/22'), dev: 'gone0', exclusive: true } as const;
      const { routes = [] } = route('10.10.8.0/22', 8);
      await expect(target.apply(put({ routes: [missing, ...routes] }), signal)).rejects.toThrow('there is no interface gone0 yet');
      expect(ip('route', 'show', '10.10.8.0/22')).toContain('dev other0 proto 94');
    } finally {
      await specimen.close();
    }
  });

  /** With IPv6, the kernel makes an appended route a next hop of Seine's own route. */
  it('is not changed where another program has appended one', async () => {
    const specimen = await openHost();
    try {
      const { target, ip } = specimen;
      const signal = AbortSignal.timeout(20_000);
      await target.apply(put(route('10.10.8.0/22', 8)), signal);
      ip('route', 'append', '10.10.8.0/22', 'via', '198.51.100.7', 'dev', 'other0', 'proto', 'static');
      const before = ip('route', 'show', '10.10.8.0/22');
      await expect(target.apply(put(route('10.10.8.0/22', 9)), signal)).rejects.toThrow('protocol static');
      expect(ip('route', 'show', '10.10.8.0/22')).toBe(before);
    } finally {
      await specimen.close();
    }
  });
});

describe('the gateway of HostTarget', () => {
  it('gets another MTU without losing its neighbours: the kernel forgets all of an interface whose address is set again', async () => {
    const specimen = await openHost();
    try {
      const { target, ip } = specimen;
      const signal = AbortSignal.timeout(20_000);
      const link = (mtu: number): Partial<Wanted> => ({ links: [{ name: dev, mtu, mac }] });
      const put = (wanted: Partial<Wanted>) => ({ put: host(wanted), remove: new Set<HostKey>() });
      await target.apply(put({ ...link(1450), addresses: [{ dev, ip: parseIp('10.10.0.1'), prefixLength: 22 }] }), signal);
      ip('neighbour', 'add', '10.10.0.9', 'lladdr', mac, 'dev', dev, 'nud', 'permanent');
      ip('neighbour', 'add', 'fd00:10::9', 'lladdr', mac, 'dev', dev, 'nud', 'reachable');
      const before = ip('neighbour', 'show', 'dev', dev);
      await target.apply(put(link(1420)), signal);
      expect(ip('link', 'show', dev)).toContain('mtu 1420');
      expect(ip('neighbour', 'show', 'dev', dev)).toBe(before);
    } finally {
      await specimen.close();
    }
  });
});

it('routes of HostTarget change one family after the other, and only then are old ones removed', async () => {
  const networks = ['10.10.16.0/22', '10.10.20.0/22', 'fd00:10:0:16::/64', 'fd00:10:0:20::/64'];
  const seen: (readonly string[])[] = [];
  const present = (): readonly string[] => {
    const listed = `${specimen.ip('-4', 'route')}${specimen.ip('-6', 'route')}`;
    return networks.filter((each) => listed.includes(each));
  };
  const specimen = await openHost(async () => void seen.push(present()));
  try {
    const routes = (numbers: readonly number[]) =>
      host({
        routes: numbers.flatMap((number) => [
          { destination: parseCidr(`10.10.${number}.0/22`), via: parseIp('198.51.100.8'), dev: 'other0' },
          { destination: parseCidr(`fd00:10:0:${number}::/64`), via: parseIp('fd00:77::8'), dev: 'other0' },
        ]),
      });
    const signal = AbortSignal.timeout(20_000);
    await specimen.target.apply({ put: routes([16]), remove: new Set() }, signal);
    await specimen.target.apply({ put: routes([20]), remove: new Set(routes([16]).keys()) }, signal);
    const [a, b, c, d] = networks as [string, string, string, string];
    expect(seen).toEqual([[], [a], [a, c], [a, b, c], [a, b, c, d], [b, c, d]]);
    expect(present()).toEqual([b, d]);
  } finally {
    await specimen.close();
  }
});
