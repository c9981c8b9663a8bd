import { debianPlugins } from '../machine/installation.ts';
import { labPaths, nodePaths } from '../plan/names.ts';
import type { LabPlan, NodePlan } from '../plan/plan.ts';

/** Environment of commands on a node, with what the tools of Open vSwitch and seinectl read. */
export function nodeEnvironment(plan: LabPlan, { name }: NodePlan): Readonly<Record<string, string>> {
  const paths = nodePaths(plan.dir, name);
  return {
    OVS_RUNDIR: paths.dir,
    SEINE_SOCKET: paths.apiSocket,
    SEINE_CNI_CONF_DIR: paths.cniConfFolder,
    SEINE_CNI_BIN_DIR: `${labPaths(plan.dir).bin}:${debianPlugins}`,
    KUBECONFIG: paths.kubeconfig,
    PATH: `${labPaths(plan.dir).bin}:${process.env['PATH'] ?? ''}`,
  };
}
