import { type Command, InvalidArgumentError, Option } from 'commander';
import { defaultPaths } from '../../api/default-paths.ts';
import { historySubjects } from '../../api/history.ts';
import type { AgentClient } from '../agent-client.ts';
import { isLocal } from '../fleet/agents-of-command.ts';
import { kubeconfigPaths } from '../fleet/kubeconfig-files.ts';
import type { OutputForm } from '../output.ts';
import { outputOption } from '../output.ts';
import type { Terminal } from '../terminal.ts';
import { timeOption } from '../time-option.ts';
import { secondsOf } from '../words.ts';
import { type LogViewLevel, logViewLevels, showLog } from './log-view.ts';
import { nodeTimeline } from './node-timeline.ts';
import { type TimelineQuery, timelineSubject } from './timeline-query.ts';

interface TimelineFlags {
  /** Milliseconds since the epoch. */
  readonly since: number;
  readonly until?: number;
  readonly follow?: boolean;
  readonly cluster?: boolean;
  readonly folder?: string;
  readonly log?: boolean;
  readonly level: LogViewLevel;
  readonly about?: string;
  readonly json?: boolean;
  /** Ends the output with a line, for `seinectl` on another host. */
  readonly end?: boolean;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly namespace: string;
  readonly timeout: number;
  readonly output: OutputForm;
}

interface TimelineContext {
  readonly agent: () => AgentClient;
  /** False on hosts that have no agent: events are then those of the cluster. */
  readonly isOnNode: boolean;
  readonly terminal: Terminal;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Called with the exit code. */
  readonly exitWith: (work: Promise<number>) => Promise<void>;
}

const help = `
KIND: pod, service, node, policy
NAME: NAMESPACE/NAME of a pod, a Service or a NetworkPolicy; NAME of a node or a ClusterNetworkPolicy

Shows what happened on this node, also before a restart of the agent: calls of the container runtime with their stages, objects received and the fields
that changed, endpoints, policies of each pod, foreign changes and repairs, problems, connections, denied packets. With --cluster, or on a host
without an agent: the same of all nodes, merged with the Events of the API server; one line for an object that several nodes received.

Examples:
  seinectl timeline                               the last half hour of this node
  seinectl timeline pod shop/web-0 --since 2h
  seinectl timeline service shop/db --cluster -f  all nodes, and what happens from now on
  seinectl timeline --since 2026-11-29T14:00:00Z --until 2026-11-29T14:05:00Z
  seinectl timeline --folder /var/lib/seine/history   without an agent, as root
  seinectl timeline --log --level warn            the last lines of the agent's log in memory

Exit codes: 0 answered, also without events; 2 the command line is invalid; 3 no agent answers, or not all of them.`;

/** Adds `seinectl timeline`. */
export function addTimeline(root: Command, { agent, isOnNode, terminal, env, exitWith }: TimelineContext): void {
  root
    .command('timeline')
    .description('show what happened, one line for each event, oldest first')
    .argument('[kind]', historySubjects.join(', '))
    .argument('[name]', 'NAMESPACE/NAME, or NAME')
    .addOption(
      new Option('--since <time>', 'beginning: 90s, 30m, 2h or 3d ago, or a time (RFC 3339)')
        .argParser(timeOption)
        .default(timeOption('30m'), '30m'),
    )
    .option('--until <time>', 'end, in the same forms; default: now', timeOption)
    .option('-f, --follow', 'print later events too, until interrupted')
    .option('--cluster', 'all nodes, through the API server, with its Events')
    .option('--folder <path>', `read this folder instead of asking the agent, e.g. ${defaultPaths.stateDir}/history`)
    .option('--log', 'the last lines of the agent’s log in memory, instead of events')
    .addOption(
      new Option('--level <level>', 'with --log: only lines of this level and above')
        .choices(logViewLevels)
        .default('debug' satisfies LogViewLevel),
    )
    .option('--about <text>', 'with --log: only lines with this text', notEmpty)
    .addOption(new Option('--json').hideHelp())
    .addOption(new Option('--end').hideHelp())
    .option('--kubeconfig <path>', 'kubeconfig of the cluster; default: as kubectl finds it, if this host has no agent')
    .option('--context <name>', 'context of the kubeconfig; default: the current one')
    .option('-n, --namespace <namespace>', 'with --cluster: namespace of the agents', 'seine-system')
    .option('--timeout <time>', 'with --cluster: how long an agent may take', secondsOption, 30)
    .addOption(outputOption(['table', 'json']))
    .addHelpText('after', help)
    .action((kind: string | undefined, name: string | undefined, flags: TimelineFlags) => {
      const isJson = flags.json === true || flags.output === 'json';
      const about = flags.about === undefined ? {} : { about: flags.about };
      const since = Math.max(1, Math.round((Date.now() - flags.since) / 1_000));
      if (flags.log) return exitWith(showLog(agent(), { since, level: flags.level, ...about, json: isJson }, terminal, Date.now()));
      const subject = kind === undefined ? {} : { subject: timelineSubject(kind, name) };
      const query: TimelineQuery = {
        ...subject,
        fromMs: flags.since,
        follow: flags.follow === true,
        ...(flags.until === undefined ? {} : { untilMs: flags.until }),
      };
      const isHere = flags.folder !== undefined || (isOnNode && !flags.cluster && (isLocal(agent(), flags) || !namesCluster(flags, env)));
      if (isHere) return exitWith(nodeTimeline(flags.folder ?? agent(), query, { isJson, withEnd: flags.end === true }, terminal));
      // The client of the API is loaded on use: all other commands start faster without it.
      return exitWith(
        import('./cluster-timeline.ts').then(({ clusterTimeline }) => clusterTimeline(query, { ...flags, isJson }, terminal, env)),
      );
    });
}

/** Reports whether there is a kubeconfig. On a node without one, an agent that does not answer is the cause to report. */
function namesCluster({ kubeconfig, context }: TimelineFlags, env: TimelineContext['env']): boolean {
  return kubeconfig !== undefined || context !== undefined || kubeconfigPaths(env).length > 0;
}

function notEmpty(text: string): string {
  if (text === '') throw new InvalidArgumentError('must not be empty.');
  return text;
}

function secondsOption(text: string): number {
  const seconds = secondsOf(text);
  if (seconds === undefined || seconds < 1 || seconds > 600) throw new InvalidArgumentError('must be from 1s to 10m.');
  return seconds;
}
