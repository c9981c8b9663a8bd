import type { Command } from 'commander';
import type { PodPolicyView } from '../../api/policy.ts';
import type { AgentClient } from '../agent-client.ts';
import { safeLine } from '../escape.ts';
import { exitCodes } from '../exit-codes.ts';
import type { AgentsContext, ClusterFlags } from '../fleet/agents-command.ts';
import { addClusterOptions, clusterHelp, runWithAgents } from '../fleet/agents-of-command.ts';
import { type OutputForm, outputOption, print } from '../output.ts';
import { addPastOptions, checkPast, type PastFlags, printPastPod } from '../recorded/past-options.ts';
import type { Terminal } from '../terminal.ts';
import { fullName } from './explain-connection.ts';
import { podPolicyLines } from './pod-policy-lines.ts';

interface PodPolicyContext extends AgentsContext {
  /** Called with the exit code. */
  readonly exitWith: (work: Promise<number>) => Promise<void>;
}

const help = `
Examples:
  seinectl policy pod shop/db
  seinectl policy pod db -o json
  seinectl policy pod shop/db --at 10m    at a past time, by the recorded inputs and the timeline of its node
${clusterHelp}

Exit codes: 0 the state of the pod is known; 1 it is not (blocked, or unchanged); 2 there is no such pod, or no record of this time.`;

type PodPolicyFlags = ClusterFlags & PastFlags & { readonly output: OutputForm };

/** Adds `seinectl policy pod`. */
export function addPodPolicy(policy: Command, context: PodPolicyContext): void {
  addClusterOptions(addPastOptions(policy.command('pod').argument('<name>', 'NAME or NAMESPACE/NAME')))
    .description('show whether policies isolate a pod, which, and what their rules allow')
    .addOption(outputOption(['table', 'json', 'yaml']))
    .addHelpText('after', help)
    .action((name: string, flags: PodPolicyFlags) => {
      checkPast(flags);
      return context.exitWith(onItsNode(context, fullName(name), flags));
    });
}

/** Asks the agent of this node, or of the node where the pod is now; with `--bundle` none. */
async function onItsNode(context: AgentsContext, name: string, flags: PodPolicyFlags): Promise<number> {
  const { at, bundle, output } = flags;
  if (at !== undefined && bundle !== undefined)
    return await printPastPod('policy', context.agent(), { name, at, bundle, output }, context.terminal);
  return await runWithAgents(context, flags, {
    pods: [name],
    output,
    args: ['policy', 'pod', ...(at === undefined ? [] : ['--at', new Date(at).toISOString()]), '--', name],
    run: (agent, terminal, form) =>
      at === undefined
        ? printPod({ agent, terminal }, name, form)
        : printPastPod('policy', agent, { name, at, bundle: undefined, output: form }, terminal),
  });
}

async function printPod(
  { agent, terminal }: { readonly agent: AgentClient; readonly terminal: Terminal },
  name: string,
  form: OutputForm,
): Promise<number> {
  const view = (await agent.json(`/v1/policy/pod?${new URLSearchParams({ name })}`)) as PodPolicyView;
  if (form === 'json' || form === 'yaml') print(terminal, view, form);
  else for (const line of podPolicyLines(view)) terminal.line(safeLine(line));
  const isKnown = [view.ingress, view.egress].every(({ state }) => state === 'free' || state === 'isolated');
  return isKnown ? exitCodes.ok : exitCodes.different;
}
