import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Log } from '../../src/base/log/log.ts';
import type { KubeApi, UnstructuredObject } from '../kube/kube-api.ts';
import type { ApiCredentials } from '../kube/kubeconfig.ts';
import { kubeconfigText } from '../kube/kubeconfig.ts';
import { aloneConfList, chainConfList, parseNetworkConf } from '../kubelet/cni-conf.ts';
import { CniRuntime } from '../kubelet/cni-runtime.ts';
import { Kubelet } from '../kubelet/kubelet.ts';
import { Sandboxes } from '../kubelet/sandbox.ts';
import { writeFileWhole } from '../machine/files.ts';
import { agentReadiness, writeAgentConfig } from '../node/agent.ts';
import { leaveTransportBridge, startOvs } from '../node/ovs.ts';
import { pinPortsNamespace } from '../node/ports-namespace.ts';
import { createNode } from '../node/topology.ts';
import { startWireGuard } from '../node/wireguard.ts';
import { nodePaths } from '../plan/names.ts';
import type { LabPlan, NodePlan } from '../plan/plan.ts';

const pluginDeadlineSeconds = 30;
const chain = ['seine'];

/** Creates everything below the agent: namespace, links, Open vSwitch. */
export async function raiseNode(plan: LabPlan, node: NodePlan, signal: AbortSignal): Promise<void> {
  await createNode(plan, node, signal);
  if (!plan.bare) await startOvs(plan, node, signal);
  else if (plan.datapath === 'netdev') await leaveTransportBridge(plan, node, signal);
  await startWireGuard(plan, node, signal);
}

/** Writes the files that the agent and the runtime of a node read. */
export async function configureNode(
  plan: LabPlan,
  node: NodePlan,
  access: ApiCredentials,
  pluginFolders: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  const paths = nodePaths(plan.dir, node.name);
  writeFileWhole(paths.kubeconfig, kubeconfigText(access, `seine-lab-${plan.id}`));
  writeAgentConfig(plan, node);
  await pinPortsNamespace(plan, node, signal);
  const runtime = runtimeOf(plan, node, pluginFolders);
  const versions = await Promise.all(chain.map((type) => runtime.versions(type, signal)));
  const seine = { agentSocket: paths.cniSocket, stateDir: paths.stateDir, deadline: pluginDeadlineSeconds };
  writeFileWhole(paths.cniConf, chainConfList(seine, versions));
  writeFileWhole(paths.cniConfAlone, aloneConfList(seine));
}

/** The kubelet of a configured node. */
export function makeKubelet(
  plan: LabPlan,
  node: NodePlan,
  parts: { readonly api: KubeApi; readonly pluginFolders: readonly string[]; readonly log: Log },
  pods: ReadonlyMap<string, UnstructuredObject>,
): Kubelet {
  const paths = nodePaths(plan.dir, node.name);
  const sandboxes = new Sandboxes({
    labId: plan.id,
    node: node.name,
    folder: paths.pods,
    runtime: runtimeOf(plan, node, parts.pluginFolders),
    network: parseNetworkConf(readFileSync(paths.cniConf, 'utf8')),
  });
  const options = {
    plan,
    node,
    api: parts.api,
    sandboxes,
    logFolder: join(paths.dir, 'logs'),
    networkReady: async () => (await agentReadiness(paths.apiSocket)).ready,
    log: parts.log.child({ node: node.name }),
  };
  return new Kubelet(options, pods);
}

function runtimeOf(plan: LabPlan, node: NodePlan, binFolders: readonly string[]): CniRuntime {
  return new CniRuntime({ nodeNetns: node.netns, binFolders, cacheFolder: nodePaths(plan.dir, node.name).cniCache });
}
