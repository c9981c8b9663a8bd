/**
 * Sets up one node of a test cluster from inside its network namespace, as the agent would: `prepare-node.ts NODE PREFIX DATAPATH`. The
 * bridge and its gateway exist already.
 */
import { firewallBody } from '../../src/dataplane/compile/compile-firewall.ts';
import { FirewallTarget } from '../../src/dataplane/targets/host/firewall-target.ts';
import { hostEntries } from '../../src/dataplane/targets/host/host-entry.ts';
import { HostTarget } from '../../src/dataplane/targets/host/host-target.ts';
import { LinkRemover } from '../../src/netlink/link-remover.ts';
import { Nftables } from '../../src/netlink/nftables/nftables.ts';
import { createPodInterface } from '../../src/netlink/pod-interfaces/pod-interface.ts';
import { NetlinkSocket } from '../../src/netlink/socket.ts';
import { wantedByOwner } from '../model/scene.ts';
import { mtu, nodes, sceneOf } from './cluster-plan.ts';

const [name, prefix, datapath] = process.argv.slice(2);
const node = nodes.find((each) => each.name === name);
if (!node || prefix === undefined) throw new Error('usage: prepare-node.ts NODE PREFIX DATAPATH');
const signal = AbortSignal.timeout(120_000);
const socket = NetlinkSocket.open();

const entries = [...wantedByOwner(sceneOf(node)).values()].flatMap((wanted) => [...hostEntries(wanted)]);
const host = new HostTarget(node.environment.gateway.name);
await host.apply({ put: new Map(entries), remove: new Set() });
await host.close();

const body = firewallBody(node.environment, { dataPath: datapath === 'system' ? 'system' : 'netdev', noSnat: false });
await new FirewallTarget(Nftables.open(), ['seine']).apply({ put: new Map([['table/seine', body]]), remove: new Set() });

const remover = LinkRemover.open();
for (const pod of node.pods) {
  const spec = {
    netnsPath: `/run/netns/${prefix}${pod.name}`,
    hostName: pod.hostName,
    podName: 'eth0',
    mac: pod.intent.mac,
    mtu,
    addresses: pod.intent.addresses.map((address) => ({ address, prefixLength: address.family === 'ipv4' ? 22 : 64 })),
    gateways: node.environment.gateway.addresses.map((address) => ({ address })),
    alias: `test/${pod.name}`,
  };
  const userspace = datapath === 'netdev';
  await createPodInterface(
    { socket, remover },
    { ...spec, hostEnd: userspace ? 'layer2Only' : 'plain', checksumOffload: userspace ? 'off' : 'keep' },
    signal,
  );
}
await remover.close();
socket.close();
