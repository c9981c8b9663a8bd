import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ourProtocol as protocolNumber } from '../../src/netlink/routing/routes.ts';
import { ConvergeLab, until } from '../support/converge-lab.ts';

/** Limit for changes that are announced to the agent, on a busy host (ms). */
const withinMs = 2_000;
const ourProtocol = String(protocolNumber);

/** Foreign changes are repaired: decision 1. */
describe('a foreign change', () => {
  let lab: ConvergeLab;

  beforeAll(async () => {
    lab = await ConvergeLab.start(2);
    await lab.startPods();
    await lab.untilReached(lab.pod('client-1'), lab.pod('web-2'));
  });
  afterAll(async () => {
    await lab?.remove();
  });

  const ofctl = (...args: readonly string[]) => lab.exec(1, 'ovs-ofctl', '-O', 'OpenFlow15', ...args);
  const flows = async () => (await lab.flows(1)).map(({ text }) => text).filter((text) => !text.includes('cookie=0x1ff'));
  const learned = async () => (await lab.flows(1)).map(({ text }) => text).filter((text) => text.includes('cookie=0x1ff'));
  const ip = (...args: readonly string[]) => lab.exec(1, 'ip', ...args);
  const neighbours = async () => (await ip('neighbour', 'show', 'dev', 'antrea-gw0', 'nud', 'permanent')).split('\n').toSorted();
  const addresses = async () =>
    (await ip('-br', 'address', 'show', 'dev', 'antrea-gw0')).match(/\S+\/\d+/g)?.filter((text) => !text.startsWith('fe80')) ?? [];
  const routes = () => Promise.all(['-4', '-6'].map((family) => ip(family, 'route', 'show', 'proto', ourProtocol)));
  const filter = async () =>
    (await lab.exec(1, 'nft', 'list', 'table', 'inet', 'seine').catch(() => '')).replaceAll(/ packets \d+ bytes \d+/g, '');
  /** At once: the time of the observation counts as not repaired. */
  const everything = () => Promise.all([flows(), lab.groups(1), lab.ofPorts(1), neighbours(), addresses(), routes()]);

  /** Executes it, waits until `looked` is as before, and returns the duration and the agent's report. */
  async function putBack(
    name: string,
    change: () => Promise<unknown>,
    looked: () => Promise<unknown>,
    patienceMs = 5_000,
  ): Promise<number> {
    const before = JSON.stringify(await looked());
    const reports = lab.log(1).length;
    await change();
    const tookMs = await until(
      async () => JSON.stringify(await looked()) === before,
      patienceMs,
      () => `${name}: not repaired`,
    );
    const drift = lab
      .log(1)
      .slice(reports)
      .filter(({ msg }) => msg === 'foreign change; repaired');
    console.log(`${name}: repaired after ${tookMs} ms; reported: ${drift.map(({ part, entries }) => `${entries} of ${part}`).join(', ')}`);
    expect(drift.length, `${name} is reported`).toBeGreaterThan(0);
    return tookMs;
  }

  const changes: readonly { readonly name: string; readonly change: () => Promise<unknown>; readonly looked: () => Promise<unknown> }[] = [
    { name: 'all flows deleted', change: () => ofctl('del-flows', 'br-int'), looked: flows },
    { name: 'one flow deleted', change: () => ofctl('del-flows', 'br-int', 'table=0,in_port=32769,arp'), looked: flows },
    { name: 'actions changed', change: () => ofctl('mod-flows', 'br-int', 'table=0,actions=drop'), looked: flows },
    { name: 'a foreign flow added', change: () => ofctl('add-flow', 'br-int', 'table=0,priority=65000,ip,actions=drop'), looked: flows },
    {
      name: 'a foreign flow with a cookie of learned flows added',
      change: () => ofctl('add-flow', 'br-int', 'cookie=0xff0000000000,table=0,priority=65001,ip,actions=drop'),
      looked: flows,
    },
    {
      name: 'forwarding of the kernel turned off',
      change: () => lab.exec(1, 'sysctl', '-w', 'net.ipv4.ip_forward=0', 'net.ipv6.conf.all.forwarding=0'),
      looked: () => lab.exec(1, 'sysctl', 'net.ipv4.ip_forward', 'net.ipv6.conf.all.forwarding'),
    },
    {
      name: 'groups deleted, and with them the flows that use them',
      change: () => ofctl('del-groups', 'br-int'),
      looked: async () => [await flows(), await lab.groups(1)],
    },
    {
      name: 'a pod’s port deleted',
      change: async () => {
        const name = await lab.nodeEnd(1, 'web-1');
        await lab.exec(1, 'ovs-vsctl', 'del-port', 'br-int', name);
      },
      looked: () => lab.ofPorts(1),
    },
    { name: 'a gateway address removed', change: () => ip('address', 'flush', 'dev', 'antrea-gw0', 'scope', 'global'), looked: addresses },
    { name: 'routes removed', change: () => ip('route', 'flush', 'proto', ourProtocol), looked: routes },
    { name: 'IPv6 routes removed', change: () => ip('-6', 'route', 'flush', 'proto', ourProtocol), looked: routes },
    { name: 'neighbours removed', change: () => ip('neighbour', 'flush', 'dev', 'antrea-gw0', 'nud', 'permanent'), looked: neighbours },
    {
      name: 'the gateway set down',
      change: () => ip('link', 'set', 'antrea-gw0', 'down'),
      looked: async () => [await addresses(), await routes(), await neighbours(), (await ip('link', 'show', 'antrea-gw0')).includes('UP')],
    },
    {
      name: 'the tunnel’s port deleted',
      change: () => lab.exec(1, 'ovs-vsctl', 'del-port', 'br-int', 'antrea-tun0'),
      looked: () => lab.ofPorts(1),
    },
    {
      name: 'the gateway’s port deleted',
      change: () => lab.exec(1, 'ovs-vsctl', 'del-port', 'br-int', 'antrea-gw0'),
      // While there is none, it cannot be read.
      looked: () =>
        Promise.all([everything(), lab.exec(1, 'sysctl', '-a', '-r', 'antrea-gw0.(rp_filter|send_redirects|accept_ra)$')]).catch(() => ''),
    },
    {
      name: 'the whole bridge deleted',
      change: () => lab.exec(1, 'ovs-vsctl', 'del-br', 'br-int'),
      looked: () => everything().catch(() => ''),
    },
  ];

  for (const { name, change, looked } of changes) {
    it(`(${name}) is repaired soon, and reported`, async () => {
      const all = await everything();
      expect(await putBack(name, change, looked)).toBeLessThan(withinMs);
      await lab.untilReached(lab.pod('client-1'), lab.pod('web-1'));
      await lab.untilReached(lab.pod('client-1'), lab.pod('web-2'));
      expect(await everything()).toEqual(all);
    });
  }

  it('keeps learned flows', async () => {
    await ofctl('add-flow', 'br-int', 'cookie=0x1ff0000000000,table=120,idle_timeout=600,priority=100,tun_src=192.0.2.9,actions=drop');
    const before = await learned();
    expect(before.length).toBeGreaterThan(0);
    // Not one that was deleted a moment ago: the log reports that once.
    await putBack('one flow deleted', () => ofctl('del-flows', 'br-int', 'table=0,in_port=32769,ip'), flows);
    expect(await learned()).toEqual(before);
  });

  it('of nftables alone, or of a group that keeps its number, is repaired', {
    timeout: 150_000,
  }, async () => {
    const group = /group_id=(\d+)/.exec(await lab.groups(1))?.[1];
    const both = async () => [await filter(), await lab.groups(1)];
    const change = async () => {
      await lab.exec(1, 'nft', 'delete', 'table', 'inet', 'seine');
      await ofctl('mod-group', 'br-int', `group_id=${group},type=select,bucket=actions=drop`);
    };
    expect(await putBack('table of the packet filter deleted and a group changed', change, both)).toBeLessThan(withinMs);
  });
});
