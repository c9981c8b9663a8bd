import { isIP } from 'node:net';
import { type Command, InvalidArgumentError } from 'commander';
import type { ConnectionPolicyView } from '../../api/policy.ts';
import type { AgentClient } from '../agent-client.ts';
import { safeLine } from '../escape.ts';
import { exitCodes } from '../exit-codes.ts';
import type { AgentsContext, ClusterFlags } from '../fleet/agents-command.ts';
import { addClusterOptions, clusterHelp, runWithAgents } from '../fleet/agents-of-command.ts';
import { type OutputForm, outputOption, print } from '../output.ts';
import type { Terminal } from '../terminal.ts';
import { connectionLines } from './connection-lines.ts';

interface ExplainConnectionContext extends AgentsContext {
  /** Called with the exit code. */
  readonly exitWith: (work: Promise<number>) => Promise<void>;
}

type ExplainFlags = ClusterFlags & { readonly output: OutputForm };

const help = `
Each end is decided on the node of its pod; with a kubeconfig the agents of both nodes are asked. For a connection to a Service, specify the endpoint, not
the Service.
${clusterHelp}

Examples:
  seinectl policy explain shop/api shop/db 5432
  seinectl policy explain 192.0.2.7 shop/db 53/UDP
  seinectl policy explain shop/api 198.51.100.7        all ports

Exit codes: 0 allowed as far as the nodes decide; 1 denied, or for some ports or addresses; 2 no such pod.`;

/** Adds `seinectl policy explain`. */
export function addPolicyExplain(policy: Command, context: ExplainConnectionContext): void {
  addClusterOptions(
    policy
      .command('explain')
      .description('show whether policies allow a connection, which ones decide, and what would change the decision')
      .argument('<from>', 'NAMESPACE/POD, NAME or an address')
      .argument('<to>', 'NAMESPACE/POD, NAME or an address; one of the two is a pod')
      .argument('[port]', 'PORT or PORT/PROTOCOL (TCP, UDP, SCTP); default: all', portAndProtocol),
  )
    .addOption(outputOption(['table', 'json', 'yaml']))
    .addHelpText('after', help)
    .action((from: string, to: string, port: string | undefined, flags: ExplainFlags) =>
      context.exitWith(explainOnNodes(context, { from: fullName(from), to: fullName(to), ...(port === undefined ? {} : { port }) }, flags)),
    );
}

/** @param name an address is returned unchanged */
export function fullName(name: string): string {
  return name.includes('/') || isIP(name) !== 0 ? name : `default/${name}`;
}

function portAndProtocol(text: string): string {
  const [, port = '', protocol = 'TCP'] = /^(\d{1,5})(?:\/(TCP|UDP|SCTP))?$/i.exec(text) ?? [];
  if (Number(port) < 1 || Number(port) > 65_535) throw new InvalidArgumentError('must be a port from 1 to 65535, e.g. 80 or 53/UDP.');
  return `${Number(port)}/${protocol.toUpperCase()}`;
}

interface ConnectionEnds {
  readonly from: string;
  readonly to: string;
  readonly port?: string;
}

function explainOnNodes(context: AgentsContext, connection: ConnectionEnds, flags: ExplainFlags): Promise<number> {
  const { from, to, port } = connection;
  return runWithAgents(context, flags, {
    pods: [from, to],
    output: flags.output,
    args: ['policy', 'explain', from, to, ...(port === undefined ? [] : [port])],
    run: (agent, terminal, form) => explain(agent, connection, form, terminal),
  });
}

async function explain(agent: AgentClient, connection: ConnectionEnds, form: OutputForm, terminal: Terminal): Promise<number> {
  const view = (await agent.json(`/v1/policy/explain?${new URLSearchParams({ ...connection })}`)) as ConnectionPolicyView;
  if (form === 'json' || form === 'yaml') print(terminal, view, form);
  else for (const line of connectionLines(view)) terminal.line(safeLine(line));
  return view.verdict === 'allow' ? exitCodes.ok : exitCodes.different;
}
