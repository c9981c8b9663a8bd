import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { startInBackground } from '../machine/background.ts';
import { inNetns, runIn } from '../machine/netns.ts';
import { nodePaths } from '../plan/names.ts';
import type { LabPlan, NodePlan } from '../plan/plan.ts';

/** Device of the agent. */
const wireGuardDevice = 'antrea-wg0';

/** Folder in which `wireguard-go` creates its socket: it cannot be configured, so each node's process has a mount of its own there. */
const socketsOfProcess = '/var/run/wireguard';

/** Starts the process again when it ends, as it does when its interface is deleted. */
const keepRunning = `
set -e
mkdir -p ${socketsOfProcess}
mount --bind "$1" ${socketsOfProcess}
set +e
while :; do wireguard-go -f ${wireGuardDevice}; sleep 0.2; done`;

/** Returns the folder with the socket of a node's WireGuard process. */
export function wireGuardFolder(plan: LabPlan, node: NodePlan): string {
  return join(nodePaths(plan.dir, node.name).dir, 'wireguard');
}

/** Starts the process that serves a node's WireGuard device, where the kernel has no WireGuard. It outlives this process. */
export async function startWireGuard(plan: LabPlan, node: NodePlan, signal: AbortSignal): Promise<void> {
  if (plan.encryption === undefined || (await hasKernelDevices(node, signal))) return;
  const { dir } = nodePaths(plan.dir, node.name);
  const folder = wireGuardFolder(plan, node);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const { command, args } = inNetns(node.netns, 'unshare', ['--mount', 'sh', '-c', keepRunning, 'sh', folder]);
  startInBackground({
    command,
    args,
    env: { LOG_LEVEL: 'error' },
    logFile: join(dir, 'wireguard.log'),
    pidFile: join(dir, 'wireguard.pid'),
  });
}

async function hasKernelDevices({ netns }: NodePlan, signal: AbortSignal): Promise<boolean> {
  const probe = 'wg-probe';
  try {
    await runIn(netns, 'ip', ['link', 'add', probe, 'type', 'wireguard'], {}, signal);
  } catch {
    return false; // an error of another kind shows when the agent creates its device
  }
  await runIn(netns, 'ip', ['link', 'delete', probe], {}, signal);
  return true;
}
