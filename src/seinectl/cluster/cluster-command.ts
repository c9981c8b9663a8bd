import { type Command, InvalidArgumentError, Option } from 'commander';
import { outputOption } from '../output.ts';
import type { Terminal } from '../terminal.ts';
import { secondsOf } from '../words.ts';
import type { ClusterOptions, ClusterQuestion } from './cluster-options.ts';

interface ClusterCommandContext {
  readonly terminal: Terminal;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Called with the exit code. */
  readonly exitWith: (work: Promise<number>) => Promise<void>;
}

const help = `
Runs on any host with a kubeconfig. Finds the agents' pods by their label, and queries each of them by an exec through the API server, with the
rights of the kubeconfig's user: list pods, create and get pods/exec in the namespace, and list nodes, to find those without an agent.

Examples:
  seinectl cluster status                          the whole fleet: readiness, problems, age of the oldest check, versions, modes
  seinectl cluster status --pool canary -o wide    a line a node
  seinectl cluster versions --context production   which versions run on how many nodes
  seinectl cluster policy -o json | jq '.nodes[] | select(.policy.mode != "enforce") | .node'
  seinectl cluster check --timeout 60s             each node tests itself, with packets

Exit codes:
  0  fine
  1  not ready, problems, or not enforced
  2  the command line or the kubeconfig is invalid
  3  incomplete: an agent did not answer, a node has none, or the API server does not answer`;

const questions: Readonly<Record<ClusterQuestion, { readonly about: string; readonly seconds: number }>> = {
  status: { about: 'show readiness, problems, checks, versions and modes of all nodes (exit 1 for any problem)', seconds: 5 },
  check: { about: 'test each node with packets; takes a while (exit 1 for any problem)', seconds: 60 },
  versions: { about: 'show which versions of Seine and Open vSwitch run on how many nodes', seconds: 10 },
  rotate: { about: 'replace the WireGuard key of each node; packets of about 100 ms of each are lost', seconds: 10 },
  policy: { about: 'show modes, isolated and blocked pods, suspensions (exit 1 if policies are not enforced everywhere)', seconds: 10 },
};

/** Adds `seinectl cluster …`: all agents, from anywhere. */
export function addCluster(root: Command, context: ClusterCommandContext): void {
  const parent = root
    .command('cluster')
    .description('show the agents of all nodes, from any host with a kubeconfig')
    .addHelpText('after', help);
  for (const what of ['status', 'check', 'versions', 'policy'] as const) addQuestion(parent, what, context);
  addQuestion(parent.command('wireguard').description('encryption between nodes'), 'rotate', context);
}

function addQuestion(parent: Command, what: ClusterQuestion, { terminal, env, exitWith }: ClusterCommandContext): void {
  const { about, seconds } = questions[what];
  // The client of the API is loaded on use: all other commands start faster without it.
  const run = async (options: ClusterOptions): Promise<number> =>
    await (await import('./cluster-options.ts')).look(what, options, terminal, env);
  parent
    .command(what)
    .description(about)
    .option('--kubeconfig <path>', 'kubeconfig of the cluster; default: as kubectl finds it')
    .option('--context <name>', 'context of the kubeconfig; default: the current one')
    .option('-n, --namespace <namespace>', 'namespace of the agents', 'seine-system')
    .option('--pool <name>', 'only agents of this pool; default: those of no pool')
    .option('--timeout <time>', 'for each agent, e.g. 10s or 2m', wholeSeconds, seconds)
    .addOption(new Option('--parallel <number>', 'number of agents queried in parallel').argParser(parallelCount).default(100))
    .addOption(outputOption(['table', 'wide', 'json', 'yaml']))
    .action((options: ClusterOptions) => exitWith(run(options)));
}

function wholeSeconds(text: string): number {
  const found = secondsOf(text);
  if (found === undefined || found < 1 || found > 600) throw new InvalidArgumentError('must be a time from 1s to 10m, e.g. 30s.');
  return found;
}

const PARALLEL_MOST = 1_000;

function parallelCount(text: string): number {
  const found = /^\d{1,4}$/.test(text) ? Number(text) : 0;
  if (found < 1 || found > PARALLEL_MOST) throw new InvalidArgumentError(`must be a number from 1 to ${PARALLEL_MOST}.`);
  return found;
}
