import { spawn } from 'node:child_process';
import { delimiter, join } from 'node:path';
import { SeineError } from '../src/base/errors/seine-error.ts';
import { livingProcess } from './machine/files.ts';
import { inNetns } from './machine/netns.ts';
import { exitCodeOf, labMark } from './machine/process.ts';
import { nodeEnvironment } from './node/commands.ts';
import { labPaths } from './plan/names.ts';
import type { LabPlan, NodePlan } from './plan/plan.ts';
import { runtimePaths } from './real-kubernetes/paths.ts';
import { askStatus } from './up.ts';

const forwarded = ['SIGTERM', 'SIGHUP', 'SIGQUIT'] as const;

/** Runs a command in a pod's network namespace with our terminal. Resolves to its exit code. */
export async function executeInPod(plan: LabPlan, pod: string, command: readonly string[]): Promise<number> {
  const { pods } = await askStatus(plan.dir);
  const found = pods.find(({ namespace, name }) => `${namespace}/${name}` === pod || (namespace === 'default' && name === pod));
  if (found === undefined)
    throw new SeineError(
      'INVALID_INPUT',
      `no pod ${pod} has a network; there are ${pods.map(({ namespace, name }) => `${namespace}/${name}`).join(', ') || 'none'}`,
    );
  return execute(plan, found.netns, command, {});
}

/** Runs a command on a node, with the environment that the tools of Open vSwitch and seinectl read. Resolves to its exit code. */
export async function executeOnNode(plan: LabPlan, nodeName: string, command: readonly string[]): Promise<number> {
  const node = plan.nodes.find(({ name }) => name === nodeName);
  if (node === undefined)
    throw new SeineError('INVALID_INPUT', `no node ${nodeName}; the nodes are ${plan.nodes.map(({ name }) => name).join(', ')}`);
  if (plan.bare) return executeOnBareNode(plan, node, command);
  return execute(plan, node.netns, command, nodeEnvironment(plan, node));
}

/** Runs it with the mounts of the node, so that installed files are at their usual paths, and with the programs of its runtime. */
function executeOnBareNode(plan: LabPlan, { name, netns }: NodePlan, command: readonly string[]): Promise<number> {
  const { dir, pidFile } = runtimePaths(plan, name);
  const holder = livingProcess(pidFile('mounts'));
  if (holder === undefined) throw new SeineError('UNAVAILABLE', `the mounts of ${name} are gone`);
  return execute(plan, netns, ['nsenter', `--target=${holder.pid}`, '--mount', '--', ...command], {
    KUBECONFIG: join(dir, 'kubeconfig'),
    PATH: [labPaths(plan.dir).bin, (plan.kubernetes ?? plan.controlPlane)?.programs, process.env['PATH']].join(delimiter),
  });
}

/** Runs a command outside the cluster, in the outside network. Resolves to its exit code. */
export async function executeOutside(plan: LabPlan, command: readonly string[]): Promise<number> {
  return execute(plan, plan.external.netns, command, { KUBECONFIG: labPaths(plan.dir).kubeconfig });
}

function execute(plan: LabPlan, netns: string, command: readonly string[], env: Readonly<Record<string, string>>): Promise<number> {
  const [program, ...args] = command;
  if (program === undefined) throw new SeineError('INVALID_INPUT', 'no command is given');
  const inside = inNetns(netns, program, args);
  const child = spawn(inside.command, inside.args, { stdio: 'inherit', env: { ...process.env, [labMark]: plan.id, ...env } });
  for (const name of forwarded) process.on(name, () => child.kill(name));
  // The terminal sends it to the command as well; this process ends when the command does.
  process.on('SIGINT', () => {});
  return new Promise((resolve, reject) => {
    child.once('error', (cause) => reject(new SeineError('REFUSED', `run ${program}`, { cause })));
    child.once('exit', (code, signal) => resolve(code ?? exitCodeOf(signal)));
  });
}
