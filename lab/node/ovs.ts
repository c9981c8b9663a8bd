import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { readIfThere, writeFileWhole } from '../machine/files.ts';
import { runIn } from '../machine/netns.ts';
import { endProcesses, environmentOf, type ProcessId, processOf, run } from '../machine/process.ts';
import { type NodePaths, nodePaths } from '../plan/names.ts';
import type { LabPlan, NodePlan } from '../plan/plan.ts';
import { addressNode, transportInterface } from './topology.ts';

export type OvsDaemon = 'ovs-vswitchd' | 'ovsdb-server';

/** Open vSwitch's own environment variable for its data folder: another version, with its programs first in PATH, works as well. */
export const ovsSchema = join(process.env['OVS_PKGDATADIR'] ?? '/usr/share/openvswitch', 'vswitch.ovsschema');
const vsctlTimeoutSeconds = '10';

/** Environment of the daemons of Open vSwitch; the tools need `OVS_RUNDIR` alone. */
function ovsEnvironment({ dir, ovs }: NodePaths): Record<string, string> {
  return { OVS_RUNDIR: dir, OVS_DBDIR: ovs, OVS_LOGDIR: ovs, OVS_SYSCONFDIR: ovs };
}

/**
 * Starts the stopped daemons of a node's Open vSwitch, on its existing database.
 *
 * `flow-restore-wait` is set before every start of `ovs-vswitchd`: until the agent has restored its flows and cleared it, OVS forwards
 * nothing, rather than something wrong. There is no `--monitor`, whose restart after a crash would come without it.
 */
export async function startOvs(plan: LabPlan, node: NodePlan, signal: AbortSignal): Promise<void> {
  const paths = nodePaths(plan.dir, node.name);
  const rundir = paths.dir;
  mkdirSync(paths.ovs, { recursive: true, mode: 0o700 });
  const database = join(paths.ovs, 'conf.db');
  const env = ovsEnvironment(paths);
  if (!existsSync(database)) await run('ovsdb-tool', ['create', database, ovsSchema], { env }, signal);
  const daemon = ['--pidfile', '--log-file', '--no-chdir', '--detach', '-vconsole:off'];
  if (!ovsProcess(rundir, 'ovsdb-server'))
    await runIn(node.netns, 'ovsdb-server', [database, `--remote=punix:${join(rundir, 'db.sock')}`, ...daemon], { env }, signal);
  if (ovsProcess(rundir, 'ovs-vswitchd')) return;
  await vsctl(rundir, ['--no-wait', 'init', '--', 'set', 'Open_vSwitch', '.', 'other_config:flow-restore-wait=true'], signal);
  await runIn(node.netns, 'ovs-vswitchd', [`unix:${join(rundir, 'db.sock')}`, ...daemon], { env }, signal);
  if (plan.datapath === 'netdev') await connectTransport(plan, node, rundir, signal);
}

/** The userspace data path sends tunnel packets only through its own ports, so the node's address is on a bridge. */
async function connectTransport(plan: LabPlan, node: NodePlan, rundir: string, signal: AbortSignal): Promise<void> {
  const bridge = transportInterface(plan);
  const wanted = ['--may-exist', 'add-br', bridge, '--', 'set', 'bridge', bridge, 'datapath_type=netdev', 'fail_mode=standalone'];
  await vsctl(rundir, [...wanted, '--', '--may-exist', 'add-port', bridge, 'eth0'], signal);
  await addressNode(plan, node, bridge, signal);
}

/**
 * Leaves the bridge with the node's address in the database of a future Open vSwitch, and none that runs. The bridge's interface remains
 * meanwhile, with its address; it carries nothing. Done once.
 */
export async function leaveTransportBridge(plan: LabPlan, node: NodePlan, signal: AbortSignal): Promise<void> {
  const { dir, ovs } = nodePaths(plan.dir, node.name);
  const done = join(ovs, 'transport');
  if (existsSync(done)) return;
  await startOvs(plan, node, signal);
  await killOvs(dir, ['ovs-vswitchd', 'ovsdb-server']);
  writeFileWhole(done, '');
}

/** Runs ovs-vsctl on a node's database. @throws SeineError `REFUSED` with its output */
async function vsctl(rundir: string, args: readonly string[], signal: AbortSignal): Promise<string> {
  return run('ovs-vsctl', [`--timeout=${vsctlTimeoutSeconds}`, ...args], { env: { OVS_RUNDIR: rundir } }, signal);
}

/**
 * The daemon of this run directory, if it runs. Its pid file has no start time, so the process must also have been
 * started with this run directory in its environment.
 */
export function ovsProcess(rundir: string, daemon: OvsDaemon): ProcessId | undefined {
  const pid = Number(readIfThere(join(rundir, `${daemon}.pid`)));
  if (!pid || !environmentOf(pid).includes(`OVS_RUNDIR=${rundir}`)) return undefined;
  return processOf(pid);
}

/** Kills daemons, like a crash. Their pid files and sockets remain. */
export async function killOvs(rundir: string, daemons: readonly OvsDaemon[]): Promise<void> {
  const found = daemons.flatMap((daemon) => ovsProcess(rundir, daemon) ?? []);
  if (found.length === 0) throw new SeineError('INVALID_INPUT', `no ${daemons.join(' or ')} runs in ${rundir}`);
  for (const { pid } of found) process.kill(pid, 'SIGKILL');
  await endProcesses(found, 0);
}
