import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { mountsBelow } from '../machine/mounts.ts';
import { run } from '../machine/process.ts';
import { nodePaths } from '../plan/names.ts';
import type { LabPlan, NodePlan } from '../plan/plan.ts';

/**
 * Creates the namespace of a node's pre-plugged ports, which its pods use unless veth pairs are configured. The plugin would create it when
 * the first pod starts, which then has a veth pair; here all pods are to have the same kind.
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
