import { release } from 'node:os';
import { packageVersion } from '../machine/installation.ts';
import { run } from '../machine/process.ts';
import { agentProcess } from '../node/agent.ts';
import { ovsProcess } from '../node/ovs.ts';
import { nodePaths } from '../plan/names.ts';
import type { LabPlan, NodePlan } from '../plan/plan.ts';

/** The contract of `seine-lab status --json`: programs read names from here only. */
export interface LabStatus {
  readonly lab: string;
  readonly dir: string;
  readonly kubeconfig: string;
  readonly nodes: readonly NodeStatus[];
  readonly pods: readonly PodStatusLine[];
  readonly versions: Readonly<Record<string, string>>;
}

interface NodeStatus {
  readonly name: string;
  readonly netns: string;
  /** `OVS_RUNDIR` for the tools of Open vSwitch. */
  readonly rundir: string;
  readonly ip: readonly string[];
  /** Null if it does not run. */
  readonly agentPid: number | null;
  readonly vswitchdPid: number | null;
  readonly ovsdbPid: number | null;
  readonly agentSocket: string;
  readonly cniConf: string;
}

export interface PodStatusLine {
  readonly namespace: string;
  readonly name: string;
  readonly node: string;
  readonly netns: string;
  readonly ips: readonly string[];
  readonly containerID: string;
}

export function nodeStatus(plan: LabPlan, node: NodePlan): NodeStatus {
  const paths = nodePaths(plan.dir, node.name);
  return {
    name: node.name,
    netns: node.netns,
    rundir: paths.dir,
    ip: node.ips,
    agentPid: agentProcess(plan, node)?.pid ?? null,
    vswitchdPid: ovsProcess(paths.dir, 'ovs-vswitchd')?.pid ?? null,
    ovsdbPid: ovsProcess(paths.dir, 'ovsdb-server')?.pid ?? null,
    agentSocket: paths.apiSocket,
    cniConf: paths.cniConf,
  };
}

/** Versions of the programs of a lab. They are read once: programs ask for the status many times a second, and each reading starts a process. */
export class LabVersions {
  readonly #openVSwitch: (signal: AbortSignal) => Promise<string>;
  #known: Readonly<Record<string, string>> | undefined;

  constructor(openVSwitch: (signal: AbortSignal) => Promise<string> = (signal) => run('ovs-vswitchd', ['--version'], {}, signal)) {
    this.#openVSwitch = openVSwitch;
  }

  async read(signal: AbortSignal): Promise<Readonly<Record<string, string>>> {
    this.#known ??= {
      seine: packageVersion,
      node: process.versions.node,
      openvswitch: /\d+\.\d+\.\d+/.exec(await this.#openVSwitch(signal))?.[0] ?? 'unknown',
      kernel: release(),
    };
    return this.#known;
  }
}

/** Status as text for a terminal. */
export function formatStatus({ dir, kubeconfig, nodes, pods }: LabStatus): string {
  const pid = (number: number | null) => (number === null ? 'not running' : String(number));
  return [
    `lab in ${dir}, kubeconfig ${kubeconfig}`,
    '',
    ...columns([
      ['NODE', 'ADDRESSES', 'AGENT', 'VSWITCHD', 'OVSDB', 'NAMESPACE'],
      ...nodes.map((node) => [node.name, node.ip.join(' '), pid(node.agentPid), pid(node.vswitchdPid), pid(node.ovsdbPid), node.netns]),
    ]),
    '',
    ...columns([
      ['POD', 'NODE', 'ADDRESSES', 'NAMESPACE'],
      ...pods.map((pod) => [`${pod.namespace}/${pod.name}`, pod.node, pod.ips.join(' '), pod.netns]),
    ]),
    '',
  ].join('\n');
}

/** Pads every column to its widest cell. */
export function columns(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}
