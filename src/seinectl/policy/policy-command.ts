import type { Command } from 'commander';
import type { Items } from '../../api/entry.ts';
import type { ClusterRank, NodePolicyView, OnePolicyView } from '../../api/policy.ts';
import type { AgentClient } from '../agent-client.ts';
import { safeLine } from '../escape.ts';
import { exitCodes } from '../exit-codes.ts';
import type { AgentsContext } from '../fleet/agents-command.ts';
import { type OutputForm, outputOption, print } from '../output.ts';
import { sorted } from '../resources.ts';
import { type TableColumn, tableLines } from '../table.ts';
import type { Terminal } from '../terminal.ts';
import { secondsUpToADay } from '../time-option.ts';
import { addDenied } from './denied-commands.ts';
import { addPolicyExplain, fullName } from './explain-connection.ts';
import { onePolicyLines } from './one-policy-lines.ts';
import { addPodPolicy } from './pod-policy-command.ts';
import { addSuspend, suspensionLines } from './suspend-command.ts';
import { top } from './top.ts';
import { verify } from './verify.ts';

interface PolicyCommandContext extends AgentsContext {
  /** Called with the exit code. */
  readonly exitWith: (work: Promise<number>) => Promise<void>;
}

interface FormOption {
  readonly output: OutputForm;
}

const showHelp = `
Examples:
  seinectl policy show shop/default-deny
  seinectl policy show default-deny -o json
  seinectl policy show --cluster-policy tenants

Exit codes: 0 the policy is valid; 1 a part is not understood, and allows nothing; 2 no such policy is known here.`;

const verifyHelp = `
Reads policies, pods, namespaces and nodes from the API server, and the flows from OVS; compares, in this process, the effect of the flows
with the API's definition of the policies: each pod of this node, direction, group of equivalent addresses, range of ports.

Exit codes: 0 equal; 1 different, in two comparisons; 2 could not be determined; 3 no agent answers.`;

/** Adds `seinectl policy`. @returns the command, for subcommands of other rooms */
export function addPolicy(root: Command, context: PolicyCommandContext): Command {
  const { agent, terminal, exitWith } = context;
  const policy = root.command('policy').description('show what NetworkPolicies and ClusterNetworkPolicies do on this node');
  addDenied(policy, context);
  addPodPolicy(policy, context);
  policy
    .command('list')
    .description('list policies that apply to pods of this node, and their invalid parts (exit 1 if there are any)')
    .addOption(outputOption(['table', 'json', 'yaml']))
    .action(({ output }: FormOption) => exitWith(list({ agent: agent(), terminal }, output)));
  addShow(policy, context);
  policy
    .command('top')
    .description(
      'count the packets that each rule allows, and that isolating policies deny: first packets of connections, and later ones of the same direction',
    )
    .option('--for <time>', 'time over which the rate is measured, e.g. 30s', secondsUpToADay, 10)
    .addOption(outputOption(['table', 'json', 'yaml']))
    .action(({ for: seconds, output }: FormOption & { readonly for: number }) =>
      exitWith(top({ agent: agent(), terminal }, { seconds, output })),
    );
  policy
    .command('verify')
    .description('prove that the flows on the bridge implement the policies')
    .option('--pod <name>', 'one pod of this node, NAME or NAMESPACE/NAME')
    .addOption(outputOption(['table', 'json', 'yaml']))
    .addHelpText('after', verifyHelp)
    .action(({ pod: name, output }: FormOption & { readonly pod?: string }) =>
      exitWith(verify({ agent: agent(), terminal }, { output, ...(name === undefined ? {} : { pod: fullName(name) }) })),
    );
  addPolicyExplain(policy, context);
  addSuspend(policy, context);
  return policy;
}

function addShow(policy: Command, { agent, terminal, exitWith }: PolicyCommandContext): void {
  policy
    .command('show')
    .description('show one policy as this node understands it: its pods here, rules, their members, and invalid parts')
    .argument('<name>', 'NAME or NAMESPACE/NAME')
    .option('--cluster-policy', 'a ClusterNetworkPolicy of this NAME')
    .addOption(outputOption(['table', 'json', 'yaml']))
    .addHelpText('after', showHelp)
    .action((name: string, { output, clusterPolicy }: FormOption & { readonly clusterPolicy?: true }) =>
      exitWith(show({ agent: agent(), terminal }, clusterPolicy ? name : fullName(name), output)),
    );
}

interface PolicyRun {
  readonly agent: AgentClient;
  readonly terminal: Terminal;
}

/** @param name `namespace/name`, or the name of a ClusterNetworkPolicy */
async function show({ agent, terminal }: PolicyRun, name: string, form: OutputForm): Promise<number> {
  const view = (await agent.json(`/v1/policy/policy?${new URLSearchParams({ name })}`)) as OnePolicyView;
  if (form === 'json' || form === 'yaml') print(terminal, view, form);
  else for (const line of onePolicyLines(view)) terminal.line(safeLine(line));
  return view.notUnderstood.length > 0 ? exitCodes.different : exitCodes.ok;
}

const columns: readonly TableColumn<NodePolicyView>[] = [
  { title: 'POLICY', of: ({ name }) => name },
  { title: 'TIER', of: ({ cluster }) => (cluster ? `${cluster.tier} ${cluster.priority}` : '') },
  { title: 'INGRESS', of: ({ ingress }) => String(ingress), align: 'right' },
  { title: 'EGRESS', of: ({ egress }) => String(egress), align: 'right' },
  { title: 'NOT UNDERSTOOD', of: ({ notUnderstood }) => notUnderstood.join('; '), tone: () => 'warning', flexible: true },
];

/** Sorts policies of the Admin tier first, and those of the Baseline tier last. */
function rank({ tier, priority }: ClusterRank): string {
  return `${tier === 'Admin' ? 'a' : 'c'}${String(priority).padStart(4, '0')}`;
}

async function list({ agent, terminal }: PolicyRun, form: OutputForm): Promise<number> {
  const answer = (await agent.json('/v1/policy/policies')) as Items<NodePolicyView>;
  const items = sorted(answer.items, ({ name, cluster }) => [cluster ? rank(cluster) : 'b', name]);
  if (form === 'json' || form === 'yaml') print(terminal, { items }, form);
  else if (items.length === 0) terminal.remark('no policy isolates a pod of this node');
  else for (const line of tableLines(columns, items, terminal.room)) terminal.line(line);
  if (form === 'table') for (const line of await suspensionLines(agent)) terminal.remark(safeLine(line));
  return items.some(({ notUnderstood }) => notUnderstood.length > 0) ? exitCodes.different : exitCodes.ok;
}
