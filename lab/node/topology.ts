import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { parseIp } from '../../src/base/net/ip.ts';
import { writeFileWhole } from '../machine/files.ts';
import { createNetns, deleteNetns, ipBatch, netnsExists, runIn } from '../machine/netns.ts';
import { labPaths } from '../plan/names.ts';
import { addressing, type LabPlan, type NodePlan, routerIps, subnetOf } from '../plan/plan.ts';

/**
 * The links of a lab, all of them inside its own namespaces:
 *
 *     external:  ul0 (bridge: transport addresses .254, and the addresses of "outside")
 *              ├── u1 ═══ eth0 of node-1 ── br-phy (OVS; has the node's address)      with --datapath netdev
 *              └── u2 ═══ eth0 of node-2 (has the node's address itself)               with --datapath system
 *              ul1: the same for every second node, with --subnets 2; the namespace routes between the two
 *     mgmt:   mg0 (bridge: the API server)
 *              └── m1 ═══ mgmt0 of node-1
 *
 * Nodes reach the API server by mgmt0, never through Open vSwitch: while `flow-restore-wait` is set, bridges in NORMAL mode drop too, and
 * the agent could not read what it needs to clear it.
 */
export async function createSwitches(plan: LabPlan, signal: AbortSignal): Promise<void> {
  await Promise.all([
    createOnce(plan, plan.external.netns, signal, () => createOutside(plan, signal)),
    createOnce(plan, plan.management.netns, signal, () => createManagement(plan, signal)),
  ]);
}

/** Creates a namespace and its links, unless done before. One with incomplete links is recreated. */
async function createOnce(plan: LabPlan, netns: string, signal: AbortSignal, wire: () => Promise<void>): Promise<void> {
  const wired = join(labPaths(plan.dir).wired, netns);
  if (existsSync(wired) && netnsExists(netns)) return;
  await deleteNetns(netns, signal);
  await createNetns(netns, signal);
  await wire();
  writeFileWhole(wired, '');
}

async function createOutside(plan: LabPlan, signal: AbortSignal): Promise<void> {
  const { netns, outside } = plan.external;
  const subnets = plan.subnets === 2 ? [0, 1] : [0];
  await ipBatch(
    netns,
    [
      ...subnets.flatMap((subnet) => [
        `link add ul${subnet} type bridge forward_delay 0 mcast_snooping 0`,
        `link set ul${subnet} up`,
        ...routerIps(plan, subnet).map((ip) => addAddress(transportAddress(ip), `ul${subnet}`)),
      ]),
      ...outside.map((ip) => addAddress(`${ip}/${parseIp(ip).family === 'ipv4' ? 32 : 128}`, 'lo')),
    ],
    signal,
  );
  if (subnets.length > 1) await runIn(netns, 'sysctl', ['-qw', 'net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1'], {}, signal);
  if (plan.datapath === 'netdev') for (const subnet of subnets) await noTransmitChecksum(netns, `ul${subnet}`, signal);
}

async function createManagement(plan: LabPlan, signal: AbortSignal): Promise<void> {
  const { netns, ip } = plan.management;
  await ipBatch(
    netns,
    [
      'link add mg0 type bridge forward_delay 0 mcast_snooping 0',
      'link set mg0 up',
      `addr add ${ip}/${addressing.management.prefixLength} dev mg0`,
    ],
    signal,
  );
}

/** A node's namespace and its two links. Its transport address comes later: on the data path netdev it is on a bridge. */
export async function createNode(plan: LabPlan, node: NodePlan, signal: AbortSignal): Promise<void> {
  await createOnce(plan, node.netns, signal, () => wireNode(plan, node, signal));
}

async function wireNode(plan: LabPlan, node: NodePlan, signal: AbortSignal): Promise<void> {
  const number = plan.nodes.indexOf(node) + 1;
  await ipBatch(
    plan.external.netns,
    [`link add u${number} type veth peer name eth0 netns ${node.netns}`, `link set u${number} master ul${subnetOf(plan, node)} up`],
    signal,
  );
  await ipBatch(
    plan.management.netns,
    [`link add m${number} type veth peer name mgmt0 netns ${node.netns}`, `link set m${number} master mg0 up`],
    signal,
  );
  await ipBatch(node.netns, [`addr add ${node.managementIp}/${addressing.management.prefixLength} dev mgmt0`, 'link set mgmt0 up'], signal);
  // State of a node before a network plugin is installed: kubeadm's preflight requires it.
  await runIn(node.netns, 'sysctl', ['-qw', 'net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1'], {}, signal);
  if (plan.datapath === 'netdev') await prepareForPacketSocket(plan, node, `u${number}`, signal);
  else await addressNode(plan, node, 'eth0', signal);
}

/** The link that has the node's address. */
export function transportInterface(plan: LabPlan): string {
  return plan.datapath === 'netdev' ? 'br-phy' : 'eth0';
}

/**
 * Settings of eth0 as a port of a bridge by a packet socket, which only copies frames:
 * - the kernel must drop the original, or it answers too (br-phy has eth0's Ethernet address). Packet sockets see a
 *   frame before the ingress hook, so the drop does not affect Open vSwitch.
 * - a checksum left to the hardware is never filled in, so both ends of the link compute it themselves.
 */
async function prepareForPacketSocket(plan: LabPlan, node: NodePlan, outsideEnd: string, signal: AbortSignal): Promise<void> {
  const drop =
    'add table netdev seine-lab; add chain netdev seine-lab eth0 { type filter hook ingress device "eth0" priority 0; policy drop; }';
  await runIn(node.netns, 'sysctl', ['-qw', 'net.ipv6.conf.eth0.disable_ipv6=1'], {}, signal);
  await ipBatch(node.netns, ['link set eth0 up'], signal);
  await noTransmitChecksum(node.netns, 'eth0', signal);
  await noTransmitChecksum(plan.external.netns, outsideEnd, signal);
  await runIn(node.netns, 'nft', [drop], {}, signal);
}

/** Adds the transport addresses and the default routes of the node, through the outside network. It is idempotent. */
export async function addressNode(plan: LabPlan, node: NodePlan, link: string, signal: AbortSignal): Promise<void> {
  await ipBatch(
    node.netns,
    [
      `link set ${link} up`,
      ...node.ips.map((ip) => `addr replace ${transportAddress(ip)} dev ${link}${parseIp(ip).family === 'ipv6' ? ' nodad' : ''}`),
      ...routerIps(plan, subnetOf(plan, node)).map((ip) => `route replace default via ${ip} dev ${link}`),
    ],
    signal,
  );
}

function addAddress(address: string, link: string): string {
  return `addr add ${address} dev ${link}${address.includes(':') ? ' nodad' : ''}`;
}

function transportAddress(ip: string): string {
  return `${ip}/${addressing.transport[parseIp(ip).family].prefixLength}`;
}

async function noTransmitChecksum(netns: string, link: string, signal: AbortSignal): Promise<void> {
  await runIn(netns, 'ethtool', ['-K', link, 'tx', 'off'], {}, signal);
}
