import { parseIp } from '../../src/base/net/ip.ts';
import { inNetns } from '../machine/netns.ts';
import { runAnyway } from '../machine/process.ts';
import type { LabPlan } from '../plan/plan.ts';

/** A mesh of more nodes is more pings than a lost first packet is worth. */
const meshMax = 8;

/**
 * Lets every node meet the others once. The userspace data path learns where tunnel packets go from the neighbour messages
 * that pass its bridge, and drops the first packet to a node it has not met.
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
