import { type Command, InvalidArgumentError } from 'commander';
import type { DenialView, DeniedConnectionsView, DeniedLogView, DeniedPairView, WouldDenyView } from '../../api/denied-log.ts';
import type { AgentClient } from '../agent-client.ts';
import { exitCodes } from '../exit-codes.ts';
import type { AgentsContext, ClusterFlags } from '../fleet/agents-command.ts';
import { addClusterOptions, clusterHelp, runWithAgents } from '../fleet/agents-of-command.ts';
import { type OutputForm, outputOption, print } from '../output.ts';
import { type TableColumn, tableLines } from '../table.ts';
import type { Terminal } from '../terminal.ts';
import { secondsUpToADay } from '../time-option.ts';
import { count, duration } from '../words.ts';

interface DeniedCommandsContext extends AgentsContext {
  /** Called with the exit code. */
  readonly exitWith: (work: Promise<number>) => Promise<void>;
}

interface LogFlags extends ClusterFlags {
  readonly for?: number;
  readonly pod?: string;
  readonly namespace?: string;
  readonly off?: true;
  readonly output: OutputForm;
}

interface WouldDenyFlags extends ClusterFlags {
  readonly for: number;
  readonly pod?: string;
  readonly output: OutputForm;
}

/** Maximum time for one answer (s). */
const watchSecondsMax = 600;

const logHelp = `
A line for the first packet of its kind, then one per second with the number of similar ones. Lines are in the agent's log:
  kubectl -n seine-system logs -l app.kubernetes.io/name=seine-agent | grep 'NetworkPolicy denied'

Examples:
  seinectl policy log --for 10m --pod shop/db
  seinectl policy log --for 1h --namespace shop
  seinectl policy log                                  current requests
  seinectl policy log --off                            ends all requests
${clusterHelp}`;

const wouldDenyHelp = `
In audit mode it shows what enforcing policies would deny; in enforce mode, what they deny.

Exit codes: 0 nothing is denied; 1 something is.
${clusterHelp} Without --pod and --node it asks all agents.`;

/** Adds `seinectl policy log` and `seinectl policy would-deny`. */
export function addDenied(policy: Command, context: DeniedCommandsContext): void {
  const { exitWith } = context;
  addClusterOptions(policy.command('log'))
    .description('log what policies deny to pods of a node, or of all nodes, for a while; ends with the agent')
    .option('--for <time>', 'duration, e.g. 90s, 10m or 2h; at most a day', secondsUpToADay)
    .option('--pod <name>', 'NAMESPACE/NAME of the pod alone')
    .option('--namespace <name>', 'the pods of this namespace alone')
    .option('--off', 'end all requests')
    .addOption(outputOption(['table', 'json', 'yaml']))
    .addHelpText('after', logHelp)
    .action((flags: LogFlags) => exitWith(logOnNodes(context, flags)));
  addClusterOptions(policy.command('would-deny'))
    .description('watch for a while what policies deny, or would if they were enforced, by pairs (exit 1 if there is anything)')
    .option('--for <time>', 'duration, e.g. 10s or 5m; 10 minutes at most', secondsUpToTenMinutes, 10)
    .option('--pod <name>', 'NAMESPACE/NAME: ask the agent of the node of this pod')
    .addOption(outputOption(['table', 'json', 'yaml']))
    .addHelpText('after', wouldDenyHelp)
    .action((flags: WouldDenyFlags) => exitWith(wouldDenyOnNodes(context, flags)));
}

function secondsUpToTenMinutes(text: string): number {
  const seconds = secondsUpToADay(text);
  if (seconds > watchSecondsMax) throw new InvalidArgumentError('ten minutes at most.');
  return seconds;
}

function logOnNodes(context: AgentsContext, flags: LogFlags): Promise<number> {
  const { for: seconds, pod, namespace, off, output } = flags;
  const fault = faultOf(flags);
  if (fault !== undefined) {
    context.terminal.remark(fault);
    return Promise.resolve(exitCodes.usage);
  }
  return runWithAgents(context, flags, {
    ...(pod === undefined ? {} : { pods: [pod] }),
    output,
    args: [
      ...['policy', 'log'],
      ...(seconds === undefined ? [] : ['--for', `${seconds}s`]),
      ...(pod === undefined ? [] : ['--pod', pod]),
      ...(namespace === undefined ? [] : ['--namespace', namespace]),
      ...(off ? ['--off'] : []),
    ],
    run: (agent, terminal, form) => log({ agent, terminal }, { ...flags, output: form }),
  });
}

function wouldDenyOnNodes(context: AgentsContext, flags: WouldDenyFlags): Promise<number> {
  const { for: seconds, pod, output } = flags;
  return runWithAgents(context, flags, {
    ...(pod === undefined ? {} : { pods: [pod] }),
    output,
    seconds,
    args: ['policy', 'would-deny', '--for', `${seconds}s`],
    run: (agent, terminal, form) => wouldDeny({ agent, terminal }, { ...flags, output: form }),
  });
}

interface DeniedRun {
  readonly agent: AgentClient;
  readonly terminal: Terminal;
}

async function log({ agent, terminal }: DeniedRun, flags: LogFlags): Promise<number> {
  const view = (await asked(agent, flags)) as DeniedLogView;
  if (flags.output === 'json' || flags.output === 'yaml') print(terminal, view, flags.output);
  else for (const line of logLines(view)) terminal.line(line);
  return exitCodes.ok;
}

function faultOf({ for: seconds, pod, namespace, off }: LogFlags): string | undefined {
  if (pod !== undefined && namespace !== undefined) return '--pod names its namespace: leave out --namespace';
  if (pod !== undefined && !/^[^/]+\/[^/]+$/.test(pod)) return '--pod: must be NAMESPACE/NAME';
  if (off && (seconds !== undefined || pod !== undefined || namespace !== undefined))
    return '--off ends all requests: use no other options';
  return seconds === undefined && (pod ?? namespace) !== undefined ? 'for how long? e.g. --for 10m' : undefined;
}

async function asked(agent: AgentClient, { for: seconds, pod, namespace, off }: LogFlags): Promise<unknown> {
  if (off) return await agent.json('/v1/policy/log', 'POST');
  if (seconds === undefined) return await agent.json('/v1/policy/log');
  const [of, name] = pod?.split('/') ?? [namespace];
  const query = { seconds: String(seconds), ...(of === undefined ? {} : { namespace: of }), ...(name === undefined ? {} : { pod: name }) };
  return await agent.json(`/v1/policy/log?${new URLSearchParams(query)}`, 'POST');
}

const settings: Readonly<Record<DeniedLogView['setting'], string>> = {
  off: 'Of no pod, as configured.',
  annotated: 'Of pods and namespaces with the annotation seine.dev/log=denied, as configured.',
  all: 'Of all pods, as configured.',
};

function logLines({ setting, requests }: DeniedLogView): string[] {
  const whose = ({ namespace, pod }: DeniedLogView['requests'][number]): string =>
    namespace === undefined ? 'all pods' : pod === undefined ? `namespace ${namespace}` : `pod ${namespace}/${pod}`;
  return [settings[setting], ...requests.map((request) => `Of ${whose(request)} for ${duration(request.secondsLeft)} still.`)];
}

function columns<T extends DenialView>(amount: TableColumn<T>): readonly TableColumn<T>[] {
  return [
    { title: 'DIRECTION', of: ({ direction }) => direction },
    { title: 'POD', of: ({ pod }) => pod },
    { title: 'PEER', of: ({ peer, peerAddress }) => (peer === peerAddress ? peer : `${peer} (${peerAddress})`) },
    {
      title: 'REQUESTS',
      of: ({ protocol, port, icmpType }) => [protocol, port ?? icmpType].filter((part) => part !== undefined).join(' '),
    },
    { ...amount, align: 'right' },
    { title: 'POLICIES', of: ({ policies, why }) => (policies.length === 0 ? why : policies.join(', ')), flexible: true },
  ];
}

const pairColumns = columns<DeniedPairView>({ title: 'PACKETS', of: ({ packets }) => String(packets) });
const livingColumns = columns<DeniedConnectionsView>({ title: 'CONNECTIONS', of: ({ connections }) => String(connections) });

async function wouldDeny({ agent, terminal }: DeniedRun, { for: seconds, output }: WouldDenyFlags): Promise<number> {
  const view = (await agent.json(`/v1/policy/would-deny?seconds=${seconds}`, 'POST')) as WouldDenyView;
  const { pairs, morePackets, counted, living = [] } = view;
  const isNothing =
    pairs.length + living.length === 0 &&
    [0n, BigInt(counted?.ingress ?? 0), BigInt(counted?.egress ?? 0)].every((packets) => packets === 0n);
  if (output === 'json' || output === 'yaml') print(terminal, view, output);
  else {
    if (pairs.length > 0) for (const line of tableLines(pairColumns, pairs, terminal.room)) terminal.line(line);
    if (pairs.length > 0 && living.length > 0) terminal.line('');
    if (living.length > 0) for (const line of tableLines(livingColumns, living, terminal.room)) terminal.line(line);
    for (const line of summary(view)) terminal.remark(line);
  }
  return isNothing && morePackets === 0 ? exitCodes.ok : exitCodes.different;
}

function summary({ mode, seconds, pairs, morePackets, counted, living, moreLiving = 0 }: WouldDenyView): string[] {
  const does = { enforce: 'were denied', audit: 'would have been denied', off: 'were inspected: no pod is policed' }[mode];
  const all = counted === undefined ? '' : `; OVS counted ${counted.ingress} packets to pods and ${counted.egress} from them`;
  return [
    `${count(pairs.length, 'pair')} in ${duration(seconds)} ${does}${all}`,
    ...(morePackets > 0 ? [`${count(morePackets, 'packet')} of pairs that are not listed`] : []),
    livingText(mode, living, moreLiving),
  ];
}

function livingText(mode: WouldDenyView['mode'], living: WouldDenyView['living'], more: number): string {
  if (living === undefined)
    return 'Idle connections are not included: tracked connections cannot be listed (never on the userspace data path)';
  const all = living.reduce((sum, { connections }) => sum + connections, more);
  return `${count(all, 'living connection')} ${mode === 'enforce' ? 'denied' : 'would be denied'}, also of those that carried nothing`;
}
