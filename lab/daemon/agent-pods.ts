import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { ApiError } from '../apiserver/errors/api-error.ts';
import type { StartInPod } from '../apiserver/http/exec.ts';
import type { KubeApi } from '../kube/kube-api.ts';
import { inNetns } from '../machine/netns.ts';
import { labMark } from '../machine/process.ts';
import { nodeEnvironment } from '../node/commands.ts';
import { labPaths, nodePaths } from '../plan/names.ts';
import type { LabPlan, NodePlan } from '../plan/plan.ts';

const namespace = 'seine-system';
const container = 'agent';
const image = 'seine.invalid/agent:lab';
const podName = (node: NodePlan): string => `seine-agent-${node.name}`;
const relayProgram = (plan: LabPlan): string => join(labPaths(plan.dir).bin, 'seine');

/** Shows the agents as pods, which no kubelet runs: commands for the whole cluster find agents by their pods. */
export async function createAgentPods(plan: LabPlan, api: KubeApi, signal: AbortSignal): Promise<void> {
  await createUnlessThere(api, '/api/v1/namespaces', { metadata: { name: namespace } }, signal);
  const path = `/api/v1/namespaces/${namespace}/pods`;
  for (const node of plan.nodes) {
    await createUnlessThere(api, path, agentPod(plan, node), signal);
    const status = {
      phase: 'Running',
      containerStatuses: [{ name: container, ready: true, restartCount: 0, image, imageID: '', state: { running: {} } }],
    };
    const contentType = 'application/merge-patch+json';
    await api.send({ method: 'PATCH', path: `${path}/${podName(node)}/status`, body: { status }, contentType }, signal);
  }
}

function agentPod(plan: LabPlan, node: NodePlan): object {
  const { apiSocket } = nodePaths(plan.dir, node.name);
  return {
    metadata: {
      name: podName(node),
      labels: { 'app.kubernetes.io/name': 'seine-agent' },
      annotations: { 'kubernetes.io/config.mirror': 'lab' },
    },
    spec: {
      nodeName: node.name,
      hostNetwork: true,
      containers: [
        {
          name: container,
          image,
          livenessProbe: { exec: { command: [relayProgram(plan), '--probe', 'livez', apiSocket] } },
        },
      ],
    },
  };
}

async function createUnlessThere(api: KubeApi, path: string, body: object, signal: AbortSignal): Promise<void> {
  try {
    await api.send({ method: 'POST', path, body }, signal);
  } catch (thrown) {
    if (SeineError.from(thrown, path).context['status'] !== 409) throw thrown;
  }
}

/** Runs the exec relay, and seinectl, for the pods of agents: on the node, in its network namespace. */
export function execInAgents(plan: LabPlan): StartInPod {
  return ({ namespace: asked, pod, command }) => {
    const node = plan.nodes.find((each) => podName(each) === pod);
    if (!node || asked !== namespace) throw new ApiError(501, 'NotImplemented', 'the lab runs programs in the pods of agents only');
    const [program = '', ...args] = command;
    if (program !== 'seinectl' && program !== relayProgram(plan))
      throw new ApiError(403, 'Forbidden', `the lab runs seinectl and the exec relay in pods of agents, not ${JSON.stringify(program)}`);
    const inside = inNetns(node.netns, program, args);
    return spawn(inside.command, inside.args, { env: { ...process.env, [labMark]: plan.id, ...nodeEnvironment(plan, node) } });
  };
}
