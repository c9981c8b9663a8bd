import { existsSync } from 'node:fs';
import type { Command } from 'commander';
import type { AgentClient } from '../agent-client.ts';
import type { AgentsCommand, AgentsContext, ClusterFlags } from './agents-command.ts';

/** Text for the help of these commands. */
export const clusterHelp = `
On a node, as root, the command asks the agent of this node. Elsewhere, or with --kubeconfig or --node, it finds the nodes of the pods and asks their
agents; that needs the rights to get pods and nodes, and to create and get pods/exec in the namespace of the agents. Exit code 3: an agent did not answer.`;

/** Adds the options of {@link ClusterFlags}. */
export function addClusterOptions(command: Command): Command {
  return command
    .option('--kubeconfig <path>', 'kubeconfig of the cluster; default: as kubectl finds it, if this host has no agent')
    .option('--context <name>', 'context of the kubeconfig; default: the current one')
    .option('--node <name>', 'ask the agent of this node of the cluster')
    .option('--agent-namespace <namespace>', 'namespace of the agents', 'seine-system');
}

/** Reports whether a command asks the agent of this node. */
export function isLocal(agent: AgentClient, { kubeconfig, context, node }: Partial<ClusterFlags>): boolean {
  return kubeconfig === undefined && context === undefined && node === undefined && existsSync(agent.socketPath);
}

/** Runs a command with the agent of this node, or with those that the flags and pods select. @returns the exit code */
export async function runWithAgents(context: AgentsContext, flags: ClusterFlags, command: AgentsCommand): Promise<number> {
  const agent = context.agent();
  if (isLocal(agent, flags)) return await command.run(agent, context.terminal, command.output);
  // The client of the API is loaded on use: all other commands start faster without it.
  const { runOnNodes } = await import('./run-on-nodes.ts');
  return await runOnNodes(command, flags, context);
}
