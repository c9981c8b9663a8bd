import type { AgentClient } from '../agent-client.ts';
import type { OutputForm } from '../output.ts';
import type { Terminal } from '../terminal.ts';

/** Options of a command that queries the agent of this node, or agents of other nodes with a kubeconfig. */
export interface ClusterFlags {
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly agentNamespace: string;
  /** Node whose agent is queried. */
  readonly node?: string;
}

export interface AgentsContext {
  /** Agent of this node. */
  readonly agent: () => AgentClient;
  readonly terminal: Terminal;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** Command for one agent or several. */
export interface AgentsCommand {
  /** Pods whose nodes are queried, as `NAMESPACE/NAME` or an address; absent for all nodes. */
  readonly pods?: readonly string[];
  /** True if the answer of any one agent suffices where no pod is on a node. */
  readonly any?: true;
  readonly output: OutputForm;
  /** Time for each answer (s). */
  readonly seconds?: number;
  /** Arguments of the same command on a node, for agents without a relay; without those of the output. */
  readonly args: readonly string[];
  /** Arguments of the output; default: `-o json`. */
  readonly jsonArgs?: readonly string[];
  /** Runs the command with one agent. @returns the exit code */
  readonly run: (agent: AgentClient, terminal: Terminal, output: OutputForm) => Promise<number>;
}
