import { execFileSync } from 'node:child_process';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { parseIp } from '../../src/base/net/ip.ts';
import { parseMac } from '../../src/base/net/mac.ts';
import type { PodLink } from '../../src/dataplane/desired/pod-link.ts';
import { type LinkEntry, type LinkKey, linkKey, sameLinkEntry, wantedLink } from '../../src/dataplane/targets/links/link-entry.ts';
import { LinksTarget } from '../../src/dataplane/targets/links/links-target.ts';
import { StandingLinks } from '../../src/dataplane/targets/links/pre-plugged-links.ts';
import { LinkRemover } from '../../src/netlink/link-remover.ts';
import { createNamedNamespace, deleteNamedNamespace } from '../../src/netlink/namespace.ts';
import { NetlinkSocket } from '../../src/netlink/socket.ts';
import { isPodInterface } from '../../src/pods/network/attachment-names.ts';
import { randomName } from '../integration/netlink-fixture.ts';
import { type Specimen, targetContract } from './target.ts';

const run = (...words: readonly string[]): string => execFileSync('ip', words, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });

/** Names in the agent's form. */
const randomLink = (): string =>
  `web-${randomName('')
    .replace(/[^0-9a-f]/g, '')
    .padEnd(7, '0')
    .slice(0, 7)}`;

async function openLinks(): Promise<Specimen<LinkKey, LinkEntry>> {
  const pods = Array.from({ length: 5 }, () => randomName('nll'));
  for (const pod of pods) createNamedNamespace(pod).close();
  const links = pods.map((pod, index) => linkOf(pod, index));
  const entries = new Map(links.map((link) => [linkKey(link.hostName), wantedLink(link)]));
  const [base, ...rest] = [...entries];
  if (!base) throw new Error('no pods');
  const elsewhere = linkOf('no-such-namespace', 9);
  let isSwitchThere = true;
  // The target finds pods by desired entries; the contract adds entries without an owner.
  const seen = new Map<LinkKey, LinkEntry>();
  const host = { socket: NetlinkSocket.open(), remover: LinkRemover.open() };
  const target = new LinksTarget({
    host,
    standing: new StandingLinks(host, () => undefined),
    wanted: () => ({ keys: () => seen.keys(), wanted: (key) => seen.get(key) }),
    isPodInterface,
    ports: {
      plug: () => {},
      unplug: async () => {
        if (!isSwitchThere) throw new SeineError('UNAVAILABLE', 'test: no switch');
      },
    },
    repairPods: true,
    looked: () => {},
    notRemoved: () => {},
  });
  const apply = target.apply.bind(target);
  target.apply = async (plan, signal) => {
    for (const [key, entry] of plan.put) seen.set(key, entry);
    await apply(plan, signal);
    await target.idle();
  };
  const foreign = randomName('oth');
  run('link', 'add', foreign, 'type', 'veth', 'peer', 'name', `${foreign}p`);
  const away = (): void => {
    for (const { hostName } of links)
      try {
        run('link', 'del', hostName);
      } catch {
        // it was not there
      }
  };
  return {
    target,
    equal: sameLinkEntry,
    base: new Map([base]),
    entries: new Map(rest),
    changes: new Map(
      rest.slice(0, 2).map(([key, { link }]) => [key, wantedLink({ ...(link as PodLink), mtu: 1300, alias: 'default/other' })]),
    ),
    impossible: new Map([[linkKey(elsewhere.hostName), wantedLink(elsewhere)]]),
    foreign: () => run('-o', 'link', 'show', 'dev', foreign),
    disturb: async () => {
      const [first = '', second = '', third = '', fourth = ''] = links.slice(1).map(({ hostName }) => hostName);
      run('link', 'del', first);
      run('link', 'set', second, 'down', 'mtu', '1280');
      run('link', 'set', third, 'alias', '');
      run('-n', pods[links.findIndex(({ hostName }) => hostName === fourth)] ?? '', 'link', 'set', 'eth0', 'down');
      run('-n', pods[0] ?? '', 'address', 'flush', 'dev', 'eth0', 'scope', 'global');
    },
    wipe: async () => away(),
    die: async () => {
      isSwitchThere = false;
      away();
    },
    revive: async () => {
      isSwitchThere = true;
    },
    close: async () => {
      await target.idle();
      away();
      run('link', 'del', foreign);
      for (const pod of pods) deleteNamedNamespace(pod);
      await host.remover.close();
      host.socket.close();
    },
  };
}

function linkOf(pod: string, index: number): PodLink {
  return {
    hostName: randomLink(),
    netnsPath: `/run/netns/${pod}`,
    podName: 'eth0',
    mac: parseMac(`0e:aa:00:00:10:0${index}`),
    mtu: 1400,
    alias: `default/web-${index} seine c${index}`,
    hostEnd: 'layer2Only',
    checksumOffload: 'off',
    addresses: [
      { address: parseIp(`10.10.0.1${index}`), prefixLength: 24 },
      { address: parseIp(`fd00:10::1${index}`), prefixLength: 64 },
    ],
    gateways: [{ address: parseIp('10.10.0.1') }, { address: parseIp('fd00:10::1') }],
    routes: [],
  };
}

targetContract('LinksTarget', openLinks, { refusal: 'parts' });
