import type { Command } from 'commander';
import type { PodExplanation, ServiceExplanation } from '../api/object.ts';
import type { AgentClient } from './agent-client.ts';
import { safeText } from './escape.ts';
import { exitCodes } from './exit-codes.ts';
import type { AgentsContext, ClusterFlags } from './fleet/agents-command.ts';
import { addClusterOptions, clusterHelp, runWithAgents } from './fleet/agents-of-command.ts';
import { print } from './output.ts';
import { addPastOptions, checkPast, type PastFlags, printPastPod } from './recorded/past-options.ts';
import type { Terminal } from './terminal.ts';

interface ExplainContext extends AgentsContext {
  /** Called with the exit code of the command. */
  readonly exitWith: (work: Promise<number>) => Promise<void>;
}

const podHelp = `
Location, age, flows, Services, repairs and problems of the pod.
${clusterHelp}

Examples:
  seinectl explain pod shop/web-0
  seinectl explain pod web-0 --json
  seinectl explain pod shop/web-0 --at 10m    at a past time, by the recorded inputs and the timeline of its node

Exit codes: 0 no problems; 1 problems, in the lines that begin with !; 2 there is no such pod, or no record of this time.`;

const serviceHelp = `${clusterHelp}
Without --from and --node it asks the agent of any node.`;

/** Adds `seinectl explain`. */
export function addExplain(root: Command, context: ExplainContext): void {
  const { exitWith } = context;
  const explained = root.command('explain').description('explain how nodes serve a Service, or the network of a pod');
  addClusterOptions(
    explained
      .command('service')
      .description('explain what clients of a Service get on a node')
      .argument('<name>', 'NAME or NAMESPACE/NAME')
      .option('--from <client>', 'a pod of the node (NAME or NAMESPACE/NAME), node or external; default: all kinds'),
  )
    .addHelpText('after', serviceHelp)
    .action((name: string, flags: ClusterFlags & { readonly from?: string }) => exitWith(serviceOnNodes(context, name, flags)));
  addPastOptions(
    addClusterOptions(
      explained
        .command('pod')
        .description('explain the network of a pod, and its problems (exit 1 if any)')
        .argument('<name>', 'NAME or NAMESPACE/NAME')
        .option('--json', 'print the data as JSON'),
    ),
  )
    .addHelpText('after', podHelp)
    .action((name: string, flags: PodFlags) => exitWith(podOnNodes(context, name, flags)));
}

type PodFlags = ClusterFlags & PastFlags & { readonly json?: boolean };

function serviceOnNodes(context: AgentsContext, name: string, flags: ClusterFlags & { readonly from?: string }): Promise<number> {
  const { from } = flags;
  const isPod = from !== undefined && !['node', 'external'].includes(from);
  return runWithAgents(context, flags, {
    ...(isPod ? { pods: [from.includes('/') ? from : `default/${from}`] } : { any: true }),
    output: 'table',
    args: ['explain', 'service', ...(from === undefined ? [] : ['--from', from]), '--', name],
    run: (agent, terminal) => explainService(agent, name, from, terminal),
  });
}

function podOnNodes(context: AgentsContext, name: string, flags: PodFlags): Promise<number> {
  checkPast(flags);
  const { at, bundle } = flags;
  const full = name.includes('/') || /^[0-9a-f]{64}$/.test(name) ? name : `default/${name}`;
  if (at !== undefined) return pastPodOnNodes(context, full, { ...flags, at, bundle });
  return runWithAgents(context, flags, {
    pods: [full],
    output: flags.json === true ? 'json' : 'table',
    args: ['explain', 'pod', full],
    jsonArgs: ['--json'],
    run: (agent, terminal, output) => explainPod(agent, full, output === 'json', terminal),
  });
}

/** In an archive, or on the node where the pod is now. */
function pastPodOnNodes(context: AgentsContext, name: string, flags: PodFlags & { readonly at: number }): Promise<number> {
  const { at, bundle, json } = flags;
  const output = json === true ? 'json' : 'table';
  if (bundle !== undefined) return printPastPod('explain', context.agent(), { name, at, bundle, output }, context.terminal);
  return runWithAgents(context, flags, {
    pods: [name],
    output,
    args: ['explain', 'pod', '--at', new Date(at).toISOString(), name],
    jsonArgs: ['--json'],
    run: (agent, terminal, form) => printPastPod('explain', agent, { name, at, bundle: undefined, output: form }, terminal),
  });
}

/** Explains the answers that clients of a Service get on a node. */
async function explainService(agent: AgentClient, name: string, from: string | undefined, terminal: Terminal): Promise<number> {
  const query = { name: name.includes('/') ? name : `default/${name}`, ...(from && { from }) };
  const answer = (await agent.json(`/v1/explain/service?${new URLSearchParams(query)}`)) as ServiceExplanation;
  for (const line of answer.lines) terminal.line(safeText(line));
  return exitCodes.ok;
}

/** @returns 1 if the pod has a problem */
async function explainPod(agent: AgentClient, name: string, json: boolean, terminal: Terminal): Promise<number> {
  const answer = (await agent.json(`/v1/explain/pod?${new URLSearchParams({ name })}`)) as PodExplanation;
  if (json) print(terminal, answer, 'json');
  else for (const line of answer.lines) terminal.line(safeText(line));
  return answer.state === 'ok' ? exitCodes.ok : exitCodes.different;
}
