import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterEach, describe, expect, it } from 'vitest';
import { type LegacyIptables, legacyIptables } from '../../src/netlink/nftables/legacy-iptables.ts';
import { Nftables } from '../../src/netlink/nftables/nftables.ts';
import { NetlinkSocket } from '../../src/netlink/socket.ts';
import { AGENTS_BACKLOG, detectKubeProxy } from '../../src/services/controller/kube-proxy.ts';
import { inside, type Lab, withNamespaces } from './netlink-fixture.ts';

/** Detected proxies in a separate namespace after `set`. */
function found(set: (lab: Lab, nftables: Nftables) => unknown, isOwn = (_port: number) => false): Promise<readonly string[]> {
  return withNamespaces(1, async (lab) => {
    const { namespace } = lab;
    const nftables = Nftables.open(namespace);
    const routeSocket = NetlinkSocket.open({ namespace });
    const diagnosisSocket = NetlinkSocket.open({ namespace, protocol: 'socketDiagnosis' });
    try {
      await set(lab, nftables);
      const legacy: LegacyIptables = {
        tables: (family) => namespace.run(() => legacyIptables.tables(family)),
        hasChain: (...wanted) => namespace.run(() => legacyIptables.hasChain(...wanted)),
      };
      return detectKubeProxy({ nftables, routeSocket, diagnosisSocket, legacy, isOwn }).found;
    } finally {
      for (const each of [nftables, routeSocket, diagnosisSocket]) each.close();
    }
  });
}

describe('a kube-proxy', () => {
  it('is absent without its rules, and the check does not create iptables tables', async () => {
    expect(await found((_, nftables) => nftables.run('table ip other {\n}\n'))).toEqual([]);
    await withNamespaces(1, (lab) => expect(inside(lab, 'cat', '/proc/net/ip_tables_names')).toBe(''));
  });
  it('is detected by its tables of nftables', async () => {
    const tables = 'table ip kube-proxy {\n}\ntable ip6 kube-proxy {\n}\n';
    expect(await found((_, nftables) => nftables.run(tables))).toEqual(['nftables table ip kube-proxy', 'nftables table ip6 kube-proxy']);
  });
  it('is detected by the canary among its chains of iptables', async () => {
    expect(await found((_, nftables) => nftables.run('table ip mangle {\n chain KUBE-PROXY-CANARY {\n }\n}\n'))).toEqual([
      'iptables chain KUBE-PROXY-CANARY',
    ]);
  });
  it.each(['iptables', 'ip6tables'])(
    'is detected by its chains of %s from before nftables, and not by a rule that names one',
    async (program) => {
      const make = (lab: Lab, ...words: readonly string[]): unknown => inside(lab, `${program}-legacy`, '-w', ...words);
      const chains = await found((lab) => {
        make(lab, '-t', 'nat', '-N', 'KUBE-SERVICES');
        make(lab, '-t', 'mangle', '-N', 'KUBE-PROXY-CANARY');
      });
      expect(chains).toEqual([`${program}-legacy chain KUBE-PROXY-CANARY`, `${program}-legacy chain KUBE-SERVICES`]);
      const others = await found((lab) => {
        make(lab, '-t', 'nat', '-N', 'OTHER');
        make(lab, '-t', 'nat', '-A', 'OTHER', '-m', 'comment', '--comment', 'KUBE-SERVICES');
      });
      expect(others).toEqual([]);
    },
  );
  it('is detected by the interface of its mode ipvs', async () => {
    const interfaces = (lab: Lab): unknown => inside(lab, 'ip', 'link', 'add', 'kube-ipvs0', 'type', 'veth');
    expect(await found(interfaces)).toEqual(['interface kube-ipvs0']);
  });

  describe('that listens on its health port', () => {
    const listeners: ChildProcess[] = [];
    afterEach(async () => {
      for (const child of listeners.splice(0)) {
        const ended = once(child, 'exit');
        child.kill();
        await ended;
      }
    });

    async function listen({ name }: Lab, user: number, address: string, backlog = 511): Promise<void> {
      const text = `process.setuid(${user}); require('node:net').createServer().listen(10256, '${address}', ${backlog}, () => console.log('ready'))`;
      const child = spawn('ip', ['netns', 'exec', name, process.execPath, '-e', text], { stdio: ['ignore', 'pipe', 'inherit'] });
      listeners.push(child);
      await once(child.stdout, 'data');
    }

    it.each(['0.0.0.0', '::'])('is detected by a listener of root at %s', async (address) => {
      expect(await found((lab) => listen(lab, 0, address))).toEqual(['a process of root listens on port 10256']);
    });
    it('is not another agent, not even one that hangs', async () => {
      expect(await found((lab) => listen(lab, 0, '::', AGENTS_BACKLOG))).toEqual([]);
    });
    it('is not this agent, which answers there itself', async () => {
      expect(
        await found(
          (lab) => listen(lab, 0, '::'),
          (port) => port === 10_256,
        ),
      ).toEqual([]);
    });
    it('is not a process of another user, whatever it answers', async () => {
      expect(await found((lab) => listen(lab, 65_534, '0.0.0.0'))).toEqual([]);
    });
  });
});
