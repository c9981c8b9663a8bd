import type { Readable } from 'node:stream';
import { Command, CommanderError, Option } from 'commander';
import { defaultPaths } from '../api/default-paths.ts';
import { seineVersion } from '../api/version.ts';
import { SeineError } from '../base/errors/seine-error.ts';
import { AgentClient } from './agent-client.ts';
import { addDiagnostics } from './bundle/diagnostics.ts';
import { addCapture } from './capture/capture-command.ts';
import { addCheck, check } from './check/check-command.ts';
import { addCluster } from './cluster/cluster-command.ts';
import { annotate, type CommandContext, diff, type GetOptions, get, pause, resume, status, version } from './commands.ts';
import { safeText } from './escape.ts';
import { exitCodeHelp, exitCodes } from './exit-codes.ts';
import { addExplain } from './explain-commands.ts';
import { addFlows } from './flows/flows-command.ts';
import { addNode } from './node-cleanup.ts';
import { type OutputForm, outputOption } from './output.ts';
import { addPolicy } from './policy/policy-command.ts';
import { addWire } from './protocols/commands.ts';
import { addReach } from './reach/reach-commands.ts';
import { addReplay } from './replay/replay-command.ts';
import { type ResourceName, resources } from './resources.ts';
import { addSimulate } from './simulate/simulate-command.ts';
import type { Terminal } from './terminal.ts';
import { secondsUpToADay } from './time-option.ts';
import { addTimeline } from './timeline/timeline-command.ts';
import { addDrops } from './trace/drops-command.ts';
import { addTrace } from './trace/trace-command.ts';
import { addUi } from './ui/ui-command.ts';
import { addWhatIf } from './what-if/what-if-command.ts';
import { addWireGuard } from './wireguard/wireguard-command.ts';

const examples = `
Examples:
  seinectl status                                 state and problems of this node's network
  seinectl check                                  test this node and its tunnels, with packets
  seinectl get pods                               pods with addresses, interfaces and state
  seinectl get pods web-0 -n shop -o yaml         one pod, its namespace checked as well
  seinectl get flows --table route --owner pod/shop/web-0
  seinectl diff                                   entries that differ from the desired state (exit 1 if any)
  seinectl pause --for 10m                        change flows manually; they are not repaired meanwhile
  ovs-ofctl --names dump-flows br-int | seinectl annotate
  seinectl timeline pod shop/web-0 --since 2h     what happened to a pod, also before a restart of the agent
  seinectl trace shop/web-0 service:shop/db 5432  the path of a packet, the verdict, and who decided it
  seinectl drops --for 10s                        how many packets ended, and why
  seinectl flows -f --verdict denied              connections as they happen, and the policies that deny them
  seinectl whatif -f policy.yaml                  which connections a change breaks and opens, before it is made
  seinectl simulate -f manifests/ trace shop/web-0 shop/db-0 5432    the same path without a cluster
  seinectl explain pod shop/web-0                 a pod's network in sentences, and its problems
  seinectl capture shop/web-0                     a pod's packets, as lines or as a pcap file
  seinectl policy pod shop/web-0                  which policies isolate a pod, and what they allow
  seinectl cluster status                         the agents of all nodes, from any host with a kubeconfig
  seinectl collect                                everything about this node in one archive

${exitCodeHelp}

In a lab: seine-lab node exec NODE -- seinectl status`;

/** Runs one command line. @returns the exit code */
export async function run(args: readonly string[], terminal: Terminal, stdin: Readable): Promise<number> {
  const program = programFor(terminal, stdin);
  let code: number = exitCodes.ok;
  program.command.hook('postAction', () => {
    code = program.code();
  });
  try {
    await program.command.parseAsync([...args], { from: 'user' });
    return code;
  } catch (thrown) {
    if (thrown instanceof CommanderError) return thrown.exitCode === 0 ? exitCodes.ok : exitCodes.usage;
    return explain(SeineError.from(thrown, 'seinectl'), program.socket(), terminal);
  }
}

/** Command line with the action of each command. */
export function programFor(terminal: Terminal, stdin: Readable) {
  let code: number = exitCodes.ok;
  const root = new Command('seinectl')
    .description('Shows the desired and the actual state of this node, and the owner of each entry.')
    .addOption(new Option('--socket <path>', 'socket of the agent').env('SEINE_SOCKET').default(defaultPaths.apiSocket))
    .version(seineVersion, '--version', 'print the version of seinectl')
    .helpCommand('help [command]', 'help about a command')
    .addHelpText('after', examples)
    .exitOverride()
    .configureOutput({ writeErr: (text) => terminal.remark(text.trimEnd()), writeOut: (text) => terminal.line(text.trimEnd()) });
  const socket = (): string => root.opts<{ socket: string }>().socket;
  const context = (): CommandContext => ({ agent: new AgentClient(socket()), terminal, stdin });
  const exitWith = async (work: Promise<number>): Promise<void> => {
    code = await work;
  };
  const programContext: ProgramContext = { context, terminal, exitWith };
  const clusterContext = { agent: () => context().agent, terminal, env: process.env, exitWith };
  addInspection(root, programContext);
  const policy = addPolicy(root, clusterContext);
  addReach(policy, clusterContext);
  addPause(root, programContext);
  addWireGuard(root, { agent: () => context().agent, terminal, exitWith });
  addAnnotate(root, programContext);
  addCapture(root, {
    ...clusterContext,
    here: async (name, options) => (await import('./capture/capture.ts')).capture(context().agent, name, options, terminal),
  });
  addPacketPaths(root, programContext);
  addFlows(root, clusterContext);
  addReplay(root, clusterContext);
  addTimeline(root, { ...clusterContext, isOnNode: true });
  addDiagnostics(root, { agent: () => context().agent, terminal, exitWith });
  addNode(root, { socket, terminal, exitWith });
  addWire(root, { terminal, stdin, exitWith });
  addCluster(root, clusterContext);
  addUi(root, clusterContext);
  addVersion(root, programContext);
  printHelpHint(root, root.name());
  return { command: root, socket, code: () => code };
}

interface ProgramContext {
  readonly context: () => CommandContext;
  readonly terminal: Terminal;
  /** Called with the exit code of the command. */
  readonly exitWith: (work: Promise<number>) => Promise<void>;
}

function addVersion(root: Command, { context, exitWith }: ProgramContext): void {
  root
    .command('version')
    .description('show versions of seinectl, the agent, Node and Open vSwitch')
    .action(() => exitWith(version(context())));
}

function addAnnotate(root: Command, { context, exitWith }: ProgramContext): void {
  root
    .command('annotate')
    .description('copy `ovs-ofctl dump-flows` from FILE or standard input, and append the owner of each flow')
    .argument('[file]', 'a dump; - is standard input')
    .action((file: string | undefined) => exitWith(annotate(context(), file)));
}

/** Adds commands that only read. */
function addInspection(root: Command, { context, terminal, exitWith }: ProgramContext): void {
  root
    .command('status')
    .description('show readiness, problems, connections, desired and present entries of this node (exit 1 if not ready)')
    .addOption(outputOption(['table', 'json', 'yaml']))
    .action(({ output }: { output: OutputForm }) => exitWith(status(context(), output)));
  addCheck(root, (options) => exitWith(check(context(), options)));
  addGet(root, (what, options) => exitWith(get(context(), what, options)));
  addExplain(root, { agent: () => context().agent, terminal, env: process.env, exitWith });
  root
    .command('diff')
    .description('show drift: + missing, - unexpected, ~ different (exit 1 if any)')
    .addOption(outputOption(['table', 'json', 'yaml']))
    .action(({ output }: { output: OutputForm }) => exitWith(diff(context(), output)));
}

/** Adds commands about the paths of packets. */
function addPacketPaths(root: Command, { context, terminal, exitWith }: ProgramContext): void {
  const agent = () => context().agent;
  addTrace(root, { agent, terminal, env: process.env, exitWith });
  addDrops(root, { agent, terminal, env: process.env, exitWith });
  addWhatIf(root, { terminal, env: process.env, exitWith });
  addSimulate(root, { terminal, exitWith });
}

/** Adds commands that pause and resume repair. */
function addPause(root: Command, { context, exitWith }: ProgramContext): void {
  root
    .command('pause')
    .description('pause the repair of foreign changes; pods and Services are still served; ends with the agent')
    .requiredOption('--for <time>', 'how long, e.g. 90s, 10m or 2h; at most a day', secondsUpToADay)
    .action(({ for: time }: { for: number }) => exitWith(pause(context(), time)));
  root
    .command('resume')
    .description('repair foreign changes again, including those made meanwhile')
    .action(() => exitWith(resume(context())));
}

function printHelpHint(command: Command, words: string): void {
  command.showHelpAfterError(`(${words} --help for usage)`);
  for (const each of command.commands) printHelpHint(each, `${words} ${each.name()}`);
}

type GetFlags = Omit<GetOptions, 'name'>;

function addGet(root: Command, action: (what: ResourceName, options: GetOptions) => Promise<void>): void {
  const parent = root.command('get').description('list desired and present entries, read from the node now');
  for (const [what, { about, namespaced }] of Object.entries(resources)) {
    const command = parent
      .command(what)
      .alias(what.replace(/s$/, ''))
      .description(about)
      .addOption(outputOption(['table', 'wide', 'json', 'yaml']))
      .option('--bad', 'only entries that are not in sync');
    if (what !== 'flows') command.argument('[name]', namespaced ? 'NAME or NAMESPACE/NAME' : 'only this one');
    if (namespaced) command.option('-n, --namespace <namespace>', 'only of this namespace');
    if (what === 'flows') command.option('--table <table>', 'only of this table, by name or number');
    if (['flows', 'groups', 'meters', 'ports', 'routes'].includes(what))
      command.option('--owner <owner>', 'only entries of this owner, e.g. node, peer/node-2, pod/default/web-0, service/default');
    command.action((...given: [string | undefined, GetFlags] | [GetFlags]) => {
      const name = typeof given[0] === 'string' ? given[0] : undefined;
      const flags = command.opts<GetFlags>();
      return action(what as ResourceName, { ...flags, ...(name === undefined ? {} : { name }) });
    });
  }
}

function explain(error: SeineError, socket: string, terminal: Terminal): number {
  const message = safeText(error.rawMessage);
  if (error.code === 'REFUSED' || error.code === 'INVALID_INPUT') {
    const old = error.context['status'] === 404 ? ' (the agent may be older than this seinectl)' : '';
    terminal.remark(`seinectl: ${message}${old}`);
    return error.code === 'REFUSED' ? exitCodes.different : exitCodes.usage;
  }
  if (error.code !== 'UNAVAILABLE') throw error;
  terminal.remark(`seinectl: no agent answers on ${safeText(socket)}: ${message}`);
  for (const hint of hints(error.context['errno'])) terminal.remark(`  ${hint}`);
  return exitCodes.unreachable;
}

function hints(errno: unknown): readonly string[] {
  if (errno === 'EACCES' || errno === 'ECONNRESET' || errno === 'EPIPE') return ['only root may use the API of the agent: try sudo'];
  return [
    'Does the agent run?          kubectl -n seine-system get pods -l app.kubernetes.io/name=seine-agent -o wide; in a lab: seine-lab status',
    'Is its socket elsewhere?     --socket PATH or SEINE_SOCKET; the agent uses apiSocket of its configuration',
    'Is this the right host?      this command shows the node it runs on; in a lab: seine-lab node exec NODE -- seinectl status',
    'Is it no node?               seinectl cluster status; drops, trace, flows, timeline, explain, policy and capture ask nodes with a kubeconfig',
  ];
}
