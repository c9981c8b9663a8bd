import { parseIp } from '../../src/base/net/ip.ts';
import { inNetns } from '../machine/netns.ts';
import { runAnyway } from '../machine/process.ts';
import type { LabPlan } from '../plan/plan.ts';

/** Maximum number of nodes: a larger mesh takes more pings than a lost first packet is worth. */
const meshMax = 8;

/**
 * Pings between all nodes once. The userspace data path learns the Ethernet addresses of tunnel peers from the neighbour messages that pass
 * its bridge, and drops the first packet to an unknown node.
 */
export async function introduceNodes(plan: LabPlan, signal: AbortSignal): Promise<void> {
  if (plan.nodes.length > meshMax) return;
  const pairs = plan.nodes.flatMap((from) => plan.nodes.filter((to) => to !== from).flatMap((to) => to.ips.map((ip) => ({ from, ip }))));
  await Promise.all(
    pairs.map(({ from, ip }) => {
      const inside = inNetns(from.netns, 'ping', [parseIp(ip).family === 'ipv4' ? '-4' : '-6', '-n', '-q', '-c', '1', '-W', '1', ip]);
      return runAnyway(inside.command, inside.args, {}, signal);
    }),
  );
}
