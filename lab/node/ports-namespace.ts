import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { mountsBelow } from '../machine/mounts.ts';
import { run } from '../machine/process.ts';
import { nodePaths } from '../plan/names.ts';
import type { LabPlan, NodePlan } from '../plan/plan.ts';

/**
 * Makes the namespace of a node's standing ports, which its pods have unless they are to have pairs. The plugin would do that when the first pod comes, which
 * has a veth pair then; here all are to have the same.
 */
export async function pinPortsNamespace(plan: LabPlan, node: NodePlan, signal: AbortSignal): Promise<void> {
  if (plan.podInterface === 'veth') return;
  const path = nodePaths(plan.dir, node.name).portsNamespace;
  const folder = dirname(path);
  if (mountsBelow(readFileSync('/proc/self/mountinfo', 'utf8'), folder).includes(path)) return;
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  writeFileSync(path, '', { mode: 0o400 });
  await run('unshare', ['--net', 'mount', '--bind', '/proc/self/ns/net', path], {}, signal);
}
