import { existsSync } from 'node:fs';
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { NodeAttempts, NodeProbes, NodeTrace } from '../../api/trace.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { followTrace, type NodeQuestion, type TraceAnswer } from '../../operations/path/whole-trace.ts';
import type { AgentClient } from '../agent-client.ts';
import { outputOption, print } from '../output.ts';
import { refusedAnswer } from '../refused-answer.ts';
import type { Terminal } from '../terminal.ts';
import { timeOption } from '../time-option.ts';
import { type ProbeAgents, withConnections, withProbes } from './probe-path.ts';
import { exitCodeOf, report, type TraceFlags, traceExitCodes, unlessPassing } from './trace-report.ts';

interface TraceContext {
  readonly agent: () => AgentClient;
  readonly terminal: Terminal;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Called with the exit code. */
  readonly exitWith: (work: Promise<number>) => Promise<void>;
}

const help = `
FROM: NAMESPACE/POD, node:NAME, outside[:ADDRESS], or ADDRESS
TO:   NAMESPACE/POD, service:NAMESPACE/NAME, node:NAME, outside[:ADDRESS], or ADDRESS
      from outside, a Service is its load balancer addresses, external IPs and node port
PORT: 80, 80/TCP, 53/UDP, 5000/SCTP, or icmp; without it an echo, or the only port of the Service

No packet is sent: the flows installed in OVS are interpreted, table by table. The verdict "bridge" is of these flows, "desired" of the flows
that the agent requires, and "meaning" of the objects in the API server. On a node, as root, the command asks the agent of this node; elsewhere, or
with --kubeconfig, the agents of all nodes on the path, and compares with the API server.

Examples:
  seinectl trace shop/web-0 service:shop/db 5432
  seinectl trace shop/web-0 shop/db-0 53/UDP --family ipv6
  seinectl trace outside:198.51.100.7 service:shop/web 80 -o wide
  seinectl trace outside:198.51.100.7 node:node-1 30080
  seinectl trace shop/db-0 outside icmp
  seinectl trace shop/web-0 shop/db-0 5432 --bundle node-1.tar.gz --bundle node-2.tar.gz
  seinectl trace shop/web-0 service:shop/db 5432 --at 10m

Exit codes:
  0  allowed
  1  denied
  2  the command line is invalid, or a name is unknown
  3  incomplete: an agent does not answer, or a flow cannot be read
  4  these verdicts differ`;

const probeHelp = `
With --probe, the agent sends one packet in the name of the sender: a pod, the node, or a host outside. It takes the path of the sender's packets through the data path of both
nodes, and ends at the agent in place of the receiver: no pod notices it. Its first pass is decided by the flows, later ones by the data path.
Packets of the node and of hosts outside begin behind the kernel of the node. Where kernels carry packets between nodes, without a tunnel, a
second probe begins behind the kernel of the other node.
With --connect, the agent opens a real connection from the sender's network namespace, and closes it. FROM has to be a pod.`;

const viaOption = new Option('--via <name>', 'node that a packet from outside enters; default: as Service and address require').conflicts([
  'node',
  'raw',
  'bundle',
  'at',
]);

/** Adds `seinectl trace`. */
export function addTrace(root: Command, { agent, terminal, env, exitWith }: TraceContext): void {
  root
    .command('trace')
    .description('show the path of a packet through the nodes, its verdict, and the policy or flow that decides')
    .argument('<from>', 'sender')
    .argument('<to>', 'receiver')
    .argument('[port]', 'port and protocol')
    .addOption(new Option('--family <family>', 'only this address family; default: those that both ends have').choices(['ipv4', 'ipv6']))
    .option('--source-port <number>', 'port of the sender; default: 40000', portNumber)
    .option('--established', 'trace a later packet: of the open connection, if the flow log or the tracker of the kernel has it')
    .option('--probe', 'also send a packet through the data path, which ends at the agent in place of the receiver')
    .option('--connect', 'also open a TCP connection, or send an echo, from a socket of the sender; the receiver notices it')
    .addOption(new Option('--raw').hideHelp())
    .option('--node', 'only the part of this node, from its agent')
    .addOption(viaOption)
    .option('--kubeconfig <path>', 'kubeconfig of the cluster; default: as kubectl finds it, if this host has no agent')
    .option('--context <name>', 'context of the kubeconfig; default: the current one')
    .option('-n, --namespace <namespace>', 'namespace of the agents', 'seine-system')
    .addOption(
      new Option('--bundle <file>', 'flows of a support bundle instead of a cluster; once for each node of the path')
        .argParser(collect)
        .conflicts(['kubeconfig', 'context', 'node', 'probe', 'connect']),
    )
    .addOption(
      new Option('--at <time>', 'at this time, with the inputs that agents recorded: 90s, 30m or 2h ago, or a time (RFC 3339)')
        .argParser(timeOption)
        .conflicts(['probe', 'connect', 'raw']),
    )
    .addOption(outputOption(['table', 'wide', 'json', 'yaml']))
    .addHelpText('after', help + probeHelp)
    .action((from: string, to: string, port: string | undefined, flags: TraceFlags) =>
      exitWith(
        traced(questionOf(from, to, port, flags), flags, { agent: agent(), terminal, env }).catch((thrown: unknown) =>
          refusedAnswer(thrown, terminal),
        ),
      ),
    );
}

interface TraceRun extends Pick<TraceContext, 'terminal' | 'env'> {
  readonly agent: AgentClient;
}

/** Traces in files, on this node, or over all nodes of the path. @returns the exit code */
async function traced(question: NodeQuestion, flags: TraceFlags, run: TraceRun): Promise<number> {
  const { agent, terminal, env } = run;
  if (flags.at !== undefined) return await tracePast(question, { ...flags, at: flags.at }, run);
  if (flags.bundle) return await traceInBundles(flags.bundle, question, flags, terminal);
  if (flags.raw) return await printAnswer(agent, question, terminal);
  if (isHere(agent, flags)) return await traceHere(agent, question, flags, terminal);
  // The client of the API is loaded on use: all other commands start faster without it.
  const { traceCluster } = await import('./trace-cluster.ts');
  return await traceCluster(question, flags, terminal, env);
}

function isHere({ socketPath }: AgentClient, { node, kubeconfig, context, via }: TraceFlags): boolean {
  return node === true || (existsSync(socketPath) && kubeconfig === undefined && context === undefined && via === undefined);
}

function collect(value: string, before: readonly string[] | undefined): readonly string[] {
  return [...(before ?? []), value];
}

async function traceInBundles(paths: readonly string[], question: NodeQuestion, flags: TraceFlags, terminal: Terminal): Promise<number> {
  const { traceBundles } = await import('./trace-bundle.ts');
  return await traceBundles(paths, question, flags, terminal);
}

/** With the histories in files, of this node, or of the nodes of the path. */
async function tracePast(
  question: NodeQuestion,
  flags: TraceFlags & { readonly at: number },
  { agent, terminal, env }: TraceRun,
): Promise<number> {
  const { traceAt, traceFilesAt } = await import('./trace-at.ts');
  if (flags.bundle) return await traceFilesAt(flags.bundle, question, flags, terminal);
  if (!isHere(agent, flags)) return await (await import('./trace-cluster-at.ts')).traceClusterAt(question, flags, terminal, env);
  const { agentSource } = await import('../recorded/recorded-source.ts');
  const elsewhere = 'run this command on a host with a kubeconfig, or with --bundle FILE of both nodes';
  return await traceAt([agentSource(agent)], question, flags, terminal, () => Promise.resolve(elsewhere));
}

function portNumber(text: string): string {
  if (!/^\d{1,5}$/.test(text) || Number(text) < 1 || Number(text) > 65_535) throw new InvalidArgumentError('not a port number');
  return text;
}

function questionOf(from: string, to: string, port: string | undefined, flags: TraceFlags): NodeQuestion {
  return {
    from,
    to,
    ...(port !== undefined && { port }),
    ...(flags.family && { family: flags.family }),
    ...(flags.sourcePort !== undefined && { 'source-port': flags.sourcePort }),
    ...(flags.established && { established: 'true' }),
  };
}

/** Traces with the agent of this node alone. @returns the exit code */
async function traceHere(
  agent: AgentClient,
  question: NodeQuestion,
  { output, probe, connect }: TraceFlags,
  terminal: Terminal,
): Promise<number> {
  const elsewhere = (node: string, rest: NodeQuestion): Promise<TraceAnswer> => Promise.resolve({ failure: restOf(node, rest) });
  const read = async () => {
    const traces = await followTrace(await askAgent(agent, question), elsewhere);
    const agents = probesHere(agent, traces[0]?.node);
    const probed = probe ? await withProbes(traces, question, agents) : traces;
    return connect ? await withConnections(probed, question, agents) : probed;
  };
  return report(await unlessPassing(read, (traces) => exitCodeOf(traces, [])), [], output, terminal);
}

/** Another node is not asked from this one. */
function probesHere(agent: AgentClient, own: string | undefined): ProbeAgents {
  const elsewhere = { failure: 'run this command on a host with a kubeconfig' };
  const post = async <T>(path: string, question: NodeQuestion) => {
    try {
      return { answer: (await agent.json(`${path}?${new URLSearchParams({ ...question })}`, 'POST')) as T };
    } catch (thrown) {
      return { failure: SeineError.from(thrown, path).rawMessage };
    }
  };
  return {
    send: async (node, question) => (node === own ? await post<NodeProbes>('/v1/probe', question) : elsewhere),
    seen: () => Promise.resolve(elsewhere),
    connect: async (_, question) => await post<NodeAttempts>('/v1/connect', question),
  };
}

function restOf(node: string, { from, to, port = '', family = 'ipv4' }: NodeQuestion): string {
  return `run there \`seinectl trace ${from} ${to} ${port} --family ${family}\`, or this command on a host with a kubeconfig (on ${node}, as root)`;
}

async function printAnswer(agent: AgentClient, question: NodeQuestion, terminal: Terminal): Promise<number> {
  print(terminal, await askAgent(agent, question), 'json');
  return traceExitCodes.allowed;
}

async function askAgent(agent: AgentClient, question: NodeQuestion): Promise<NodeTrace> {
  return (await agent.json(`/v1/trace?${new URLSearchParams({ ...question })}`)) as NodeTrace;
}
