import { execFileSync } from 'node:child_process';
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

async function openHost(): Promise<Specimen<HostKey, HostEntry>> {
  const name = randomName('nlc');
  const namespace = createNamedNamespace(name);
  const target = new HostTarget(dev, namespace);
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
  ip('neighbour', 'add', '198.51.100.9', 'lladdr', '0e:00:00:00:09:09', 'dev', 'other0', 'nud', 'permanent');
  ip('route', 'add', '10.20.0.0/16', 'via', '198.51.100.7', 'proto', 'static');
  // The same destination as one of ours, with another metric: foreign.
  ip('route', 'add', '10.10.4.0/22', 'via', '198.51.100.7', 'proto', 'static', 'metric', '50');
  ip('rule', 'add', 'fwmark', '0x1000/0x1000', 'lookup', String(externalRouting.table), 'priority', '77');
  return {
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
      ],
    }),
    impossible: host({ routes: [{ destination: parseCidr('10.97.0.0/16'), dev, src: parseIp('203.0.113.1') }] }),
    foreign: () =>
      ['link show other0', 'address show dev other0', 'route show proto static', 'neighbour show dev other0', 'rule show priority 77']
        .map((words) => ip(...words.split(' ')))
        .join(''),
    disturb: async () => {
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
