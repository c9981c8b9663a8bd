import { execFileSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { Nftables } from '../../src/netlink/nftables/nftables.ts';
import { NetlinkSocket } from '../../src/netlink/socket.ts';
import { PluginLeftovers } from '../../src/pods/host-ports/plugin-leftovers.ts';
import { inside, ip, type Lab, withNamespaces } from './netlink-fixture.ts';

const plugins = '/usr/lib/cni';

/** Calls a plugin of Debian's as a runtime on that node does. */
function add(node: Lab, pod: Lab, containerId: string, type: 'portmap' | 'bandwidth', runtimeConfig: object): void {
  const prevResult = {
    cniVersion: '1.0.0',
    interfaces: [{ name: 'host0' }, { name: 'eth0', sandbox: pod.path }],
    ips: ['10.1.0.5/24', 'fd00::5/64'].map((address) => ({ address, interface: 1 })),
  };
  const input = JSON.stringify({ cniVersion: '1.0.0', name: 'seine', type, runtimeConfig, prevResult });
  const env = {
    CNI_COMMAND: 'ADD',
    CNI_CONTAINERID: containerId,
    CNI_NETNS: pod.path,
    CNI_IFNAME: 'eth0',
    CNI_PATH: plugins,
    PATH: '/usr/sbin:/usr/bin:/sbin:/bin',
  };
  execFileSync('ip', ['netns', 'exec', node.name, `${plugins}/${type}`], { input, env, encoding: 'utf8' });
}

it('remains of portmap and bandwidth for a container are found by their names and removed, and nothing of others', () =>
  withNamespaces(2, (node, pod) => {
    const socket = NetlinkSocket.open({ namespace: node.namespace });
    try {
      ip(node, 'link', 'add', 'host0', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', pod.name);
      const portMappings = [
        { hostPort: 8_080, containerPort: 80, protocol: 'tcp' },
        { hostPort: 53, containerPort: 53, protocol: 'udp' },
      ];
      for (const id of ['c1', 'c2']) add(node, pod, id, 'portmap', { portMappings });
      add(node, pod, 'c1', 'bandwidth', { bandwidth: { egressRate: 1e6, egressBurst: 1e6, ingressRate: 0, ingressBurst: 0 } });
      const rules = () =>
        [...(inside(node, 'iptables-save') + inside(node, 'ip6tables-save')).matchAll(/id: \\"(\w+)\\"/g)].map(([, id]) => id);
      const limiters = () => ip(node, 'link', 'show', 'type', 'ifb').length;
      expect([rules().length, limiters()]).toEqual([8, 1]);
      const leftovers = new PluginLeftovers({ socket, open: () => Nftables.open(node.namespace) });
      expect(leftovers.remove({ network: 'other', containerId: 'c1' })).toEqual([]);
      expect(leftovers.remove({ network: 'seine', containerId: 'c1' })).toHaveLength(2);
      expect([new Set(rules()), limiters()]).toEqual([new Set(['c2']), 0]);
      expect(leftovers.remove({ network: 'seine', containerId: 'c1' })).toEqual([]);
      leftovers.remove({ network: 'seine', containerId: 'c2' });
      expect(inside(node, 'iptables-save') + inside(node, 'ip6tables-save')).not.toContain('CNI-DN-');
    } finally {
      socket.close();
    }
  }));

it('checks once if there are none', () =>
  withNamespaces(1, (node) => {
    const socket = NetlinkSocket.open({ namespace: node.namespace });
    let opened = 0;
    const open = () => {
      opened++;
      return Nftables.open(node.namespace);
    };
    const leftovers = new PluginLeftovers({ socket, open });
    for (const containerId of ['c1', 'c2']) expect(leftovers.remove({ network: 'seine', containerId })).toEqual([]);
    expect(opened).toBe(1);
    socket.close();
  }));
