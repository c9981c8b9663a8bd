import { execFile, execFileSync, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { closeSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { writePidFile } from '../../lab/machine/files.ts';
import { agentFlags, agentProgram } from '../../lab/machine/installation.ts';
import { unmountBelow } from '../../lab/machine/mounts.ts';
import { inNetns } from '../../lab/machine/netns.ts';
import { processOf } from '../../lab/machine/process.ts';
import { nodePaths } from '../../lab/plan/names.ts';
import type { ConvergeLab } from './converge-lab.ts';
import type { CrashRuntime } from './crash-runtime.ts';

const execute = promisify(execFile);
/** Later mounts there are visible in every mount namespace created from now on, as on a node with an init system. */
const shared = 'mountpoint -q "$0" || mount --bind "$0" "$0"; mount --make-shared "$0"';
/** Another file is mounted in its place for one process, which then runs in another boot of the host. */
const asAfterReboot = 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"';

/**
 * Removes from the lab's first node everything that a reboot removes: its processes, the namespaces of its pods and of its pre-plugged
 * ports, its interfaces except the uplink, its nftables rules. OVSDB and the agent's state stay, on disk.
 */
export async function powerOff(lab: ConvergeLab, runtime: CrashRuntime): Promise<void> {
  await lab.agent(1, 'kill');
  await lab.killOvs(1, 'all');
  for (const { netns } of runtime.live.values()) {
    await execute('ip', ['netns', 'del', netns]);
    await execute('ip', ['netns', 'add', netns]);
  }
  // `/run` is empty after a reboot; unmounting deletes the namespace of pre-plugged ports, and with it every pair.
  const ports = dirname(nodePaths(lab.plan.dir, lab.node(1).name).portsNamespace);
  await unmountBelow(ports, AbortSignal.timeout(10_000));
  rmSync(ports, { recursive: true, force: true });
  await lab.exec(1, 'nft', 'flush', 'ruleset');
}

/** Starts the agent of the lab's first node as in the next boot of its host. */
export function startAgentAfterReboot(lab: ConvergeLab): void {
  const node = lab.node(1);
  const paths = nodePaths(lab.plan.dir, node.name);
  const bootId = join(paths.dir, 'boot_id');
  writeFileSync(bootId, `${randomUUID()}\n`);
  const agent = [process.execPath, ...agentFlags, agentProgram(), '--config', paths.agentConfig];
  // The plugin mounts the namespace of pre-plugged ports there.
  execFileSync('sh', ['-ec', shared, paths.run]);
  const inside = inNetns(node.netns, 'unshare', ['--mount', '--propagation', 'slave', 'sh', '-c', asAfterReboot, bootId, ...agent]);
  const log = openSync(paths.agentLog, 'a', 0o600);
  try {
    const child = spawn(inside.command, inside.args, { stdio: ['ignore', log, log], detached: true });
    child.unref();
    const id = child.pid === undefined ? undefined : processOf(child.pid);
    if (id === undefined) throw new Error('the agent does not start');
    writePidFile(paths.agentPid, id);
  } finally {
    closeSync(log);
  }
}
