import { existsSync } from 'node:fs';
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { AgentClient } from '../agent-client.ts';
import { type OutputForm, outputOption } from '../output.ts';
import type { Terminal } from '../terminal.ts';
import { secondsUpToADay } from '../time-option.ts';
import type { FlowQuery, SummaryForm } from './flow-query.ts';

interface FlowsContext {
  readonly agent: () => AgentClient;
  readonly terminal: Terminal;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Called with the exit code. */
  readonly exitWith: (work: Promise<number>) => Promise<void>;
}

const help = `
Each node records the connections of its pods: opened, closed, denied, refused; with pods, Service, and the rules that decided on arrival. What
is not recorded is counted, and shown below the records. The log is off by default: \`flowLog.enabled\` in the agent's configuration, or in
the ConfigMap seine-live for all nodes, turns it on. On a node, as root, the command reads the log of this node; elsewhere, or with
--kubeconfig, those of all nodes, and joins the records of a connection's two ends. Filters have the names of \`hubble observe\`; several
values are separated by commas.

Examples:
  seinectl flows -f                                      connections as they happen
  seinectl flows --since 10m --verdict denied,refused    what was not admitted, and by which policy
  seinectl flows --to-pod shop/db --last 100 -o wide
  seinectl flows -n shop --service shop/db -o json
  seinectl flows --now --to-pod shop/db                  connections that are open
  seinectl flows top --by namespace --for 10m
  seinectl flows matrix -n shop

Exit codes:
  0  answered
  1  the log is off on every node that answered
  2  the command line or the kubeconfig is invalid
  3  incomplete: an agent does not answer, or the API server does not`;

/** Filters that the agent applies, and the description of each. */
const filters: readonly (readonly [flags: string, about: string])[] = [
  ['-n, --namespace <namespaces>', 'either end is a pod of this namespace'],
  ['--from-namespace <namespaces>', 'the sender is'],
  ['--to-namespace <namespaces>', 'the receiver is'],
  ['--pod <pods>', 'either end is a pod with a name that begins so, e.g. shop/web'],
  ['--from-pod <pods>', 'the sender is'],
  ['--to-pod <pods>', 'the receiver is'],
  ['--ip <addresses>', 'either end has this address'],
  ['--from-ip <addresses>', 'the sender has'],
  ['--to-ip <addresses>', 'the receiver has'],
  ['--port <ports>', 'either end has this port'],
  ['--from-port <ports>', 'the sender has'],
  ['--to-port <ports>', 'the receiver has'],
  ['--service <services>', 'opened through this Service, e.g. shop/db'],
  ['--verdict <verdicts>', 'allowed, denied, would-deny or refused'],
  ['--event <events>', 'opened, seen, closed, denied or refused'],
  ['--protocol <protocols>', 'tcp, udp, sctp, icmp, icmpv6 or a number'],
];

/** Adds `seinectl flows`, `flows top` and `flows matrix`. */
export function addFlows(root: Command, context: FlowsContext): void {
  const flows = root.command('flows').description('show connections of pods, their verdicts, and the policies that decided');
  for (const [flags, about] of filters) flows.option(flags, about);
  flows
    .option('-f, --follow', 'print further connections as they happen')
    .addOption(new Option('--now', 'connections that are open now, instead of records').conflicts(['follow', 'since']))
    .option('--since <time>', 'from this long ago, e.g. 90s, 10m or 2h; at most a day', secondsUpToADay)
    .option('--last <number>', 'the last ones; default: 20, with --since all', upTo(65_536))
    .option('--node <name>', 'only the log of this node')
    .option('--kubeconfig <path>', 'kubeconfig of the cluster; default: as kubectl finds it, if this host has no agent')
    .option('--context <name>', 'context of the kubeconfig; default: the current one')
    .option('--agents-namespace <namespace>', 'namespace of the agents', 'seine-system')
    .addOption(new Option('--raw').hideHelp())
    .addOption(outputOption(['table', 'wide', 'json']))
    .addHelpText('after', help)
    .action((flags: FlowsFlags) => run(context, flags, undefined));
  flows
    .command('top')
    .description('show who has most connections')
    .addOption(new Option('--by <what>', 'sum up by').choices(['pair', 'namespace', 'service', 'port']).default('pair'))
    .option('--for <time>', 'how far back, e.g. 10m; at most an hour', secondsUpToAnHour, 60)
    .configureHelp({ showGlobalOptions: true })
    .action((flags: SummaryFlags, command: Command) =>
      run(context, command.optsWithGlobals(), { what: 'top', by: flags.by ?? 'pair', seconds: flags.for }),
    );
  flows
    .command('matrix')
    .description('show which workloads open connections to which, and which of these were denied')
    .option('--for <time>', 'how far back, e.g. 10m; at most an hour', secondsUpToAnHour, 600)
    .configureHelp({ showGlobalOptions: true })
    .action((flags: SummaryFlags, command: Command) => run(context, command.optsWithGlobals(), { what: 'matrix', seconds: flags.for }));
}

interface FlowsFlags extends Readonly<Record<string, unknown>> {
  readonly follow?: true;
  readonly now?: true;
  readonly since?: number;
  readonly last?: number;
  readonly node?: string;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly agentsNamespace: string;
  readonly raw?: true;
  readonly output: OutputForm;
}

interface SummaryFlags {
  readonly by?: 'pair' | 'namespace' | 'service' | 'port';
  readonly for: number;
}

async function run({ agent, terminal, env, exitWith }: FlowsContext, flags: FlowsFlags, summary: SummaryForm | undefined): Promise<void> {
  const { follow, now, since, last, node, kubeconfig, context, agentsNamespace, raw, output } = flags;
  const options: FlowQuery = {
    filters: filters.flatMap(([written]) => filterOf(written, flags)),
    ...(since !== undefined && { since }),
    ...(last !== undefined && { last }),
    ...(follow && { follow }),
    ...(now && { now }),
    ...(node !== undefined && { node }),
    ...(kubeconfig !== undefined && { kubeconfig }),
    ...(context !== undefined && { context }),
    agentsNamespace,
    ...(summary && { summary }),
    output,
  };
  // Their modules are loaded on use: all other commands start faster without them.
  if (raw) return await exitWith(import('./flows-here.ts').then(({ printRaw }) => printRaw(agent(), options, terminal)));
  const isHere = existsSync(agent().socketPath) && kubeconfig === undefined && context === undefined;
  if (isHere) return await exitWith(import('./flows-here.ts').then(({ flowsHere }) => flowsHere(agent(), options, terminal)));
  await exitWith(import('./flows-cluster.ts').then(({ flowsCluster }) => flowsCluster(options, terminal, env)));
}

function filterOf(written: string, flags: FlowsFlags): readonly (readonly [string, string])[] {
  const name = /--([a-z-]+)/.exec(written)?.[1] ?? '';
  const value = flags[name.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase())];
  return typeof value === 'string' ? [[name, value]] : [];
}

function secondsUpToAnHour(text: string): number {
  const seconds = secondsUpToADay(text);
  if (seconds > 3_600) throw new InvalidArgumentError('must be at most an hour: older connections are not summed up.');
  return seconds;
}

function upTo(most: number): (text: string) => number {
  return (text) => {
    if (!/^\d{1,6}$/.test(text) || Number(text) > most) throw new InvalidArgumentError(`must be a whole number up to ${most}.`);
    return Number(text);
  };
}
