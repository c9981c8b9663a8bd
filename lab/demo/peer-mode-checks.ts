import type { Family } from '../../src/base/net/ip.ts';
import { runIn } from '../machine/netns.ts';
import { type LabPlan, type NodePlan, subnetOf } from '../plan/plan.ts';
import { type DemoCheck, type DemoLab, demoPod, eventually, ofFamily, type Verdict } from './scene.ts';

/** An agent announces itself once it is ready, waits two seconds, and needs the answer to an echo; longer on an emulated host. */
const directWithinMs = 60_000;

/** Interface of the bridge: packets that the kernel sends there are in the tunnel. */
const gateway = 'antrea-gw0';
const encrypted = 'antrea-wg0';

/** Checks of the ways between nodes, for one family, where the mode is not the tunnel for all. */
export function peerModeChecks(scene: DemoLab, family: Family): DemoCheck[] {
  const { mode = 'encap', encryption } = scene.plan;
  if (encryption === undefined && mode === 'encap') return [];
  const name = encryption === undefined ? 'direct' : encryption;
  return [
    { name: `peer-mode.${name}.${family}`, run: (signal) => eventually(() => waysAreAsConfigured(scene, family, signal), directWithinMs) },
  ];
}

/**
 * Checks that each node sends to peers in its subnet, or with `noEncap` to all, without the bridge, and to others through it; with
 * encryption to all by the device that encrypts.
 */
async function waysAreAsConfigured(scene: DemoLab, family: Family, signal: AbortSignal): Promise<Verdict> {
  const { plan } = scene;
  const pairs = plan.nodes.flatMap((from, at) =>
    plan.nodes.flatMap((to, number) => (number === at ? [] : [{ from, to, number: number + 1 }])),
  );
  const wrong: string[] = [];
  let direct = 0;
  for (const { from, to, number } of pairs) {
    const device = await deviceTo(from, ofFamily(demoPod(scene, 'web', number).ips, family), signal);
    if (device !== gateway) direct++;
    if (!isAsConfigured(device, plan, from, to)) wrong.push(`${from.name} → ${to.name} by ${device}`);
  }
  const detail = wrong.length === 0 ? `${direct} of ${pairs.length} pairs of nodes without a tunnel` : wrong.slice(0, 4).join('; ');
  return { ok: wrong.length === 0, detail };
}

function isAsConfigured(device: string, plan: LabPlan, from: NodePlan, to: NodePlan): boolean {
  if (plan.encryption !== undefined) return device === encrypted;
  const isDirect = plan.mode === 'noEncap' || subnetOf(plan, from) === subnetOf(plan, to);
  return (device !== gateway) === isDirect;
}

async function deviceTo({ netns }: NodePlan, address: string, signal: AbortSignal): Promise<string> {
  const route = await runIn(netns, 'ip', ['route', 'get', address], {}, signal);
  return / dev (\S+)/.exec(route)?.[1] ?? 'none';
}
