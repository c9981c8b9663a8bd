import { type Command, Option } from 'commander';
import type { Items } from '../../api/entry.ts';
import type { SuspensionAnswer, SuspensionView } from '../../api/policy.ts';
import type { AgentClient } from '../agent-client.ts';
import { safeLine } from '../escape.ts';
import { exitCodes } from '../exit-codes.ts';
import type { Terminal } from '../terminal.ts';
import { secondsUpToADay } from '../time-option.ts';
import { count } from '../words.ts';

interface SuspendContext {
  readonly agent: () => AgentClient;
  readonly terminal: Terminal;
  /** Called with the exit code. */
  readonly exitWith: (work: Promise<number>) => Promise<void>;
}

interface TargetOptions {
  readonly pod?: string;
  readonly namespace?: string;
  readonly node?: true;
}

const suspendHelp = `
Break-glass, without the API server: policies deny nothing to and from these pods of this node, until the time is over or \`resume\`; a restarted agent
continues it. Policies of the other end of a connection still apply. The reason is in the log, an event of the Node and \`status\`.

Examples:
  seinectl policy suspend --pod shop/db --for 30m --reason "INC-4711: orders fail"
  seinectl policy suspend --namespace shop --for 1h --reason "policies of release 7 are wrong"
  seinectl policy suspend --node --for 10m --reason "finding out"

Exit codes: 0 suspended; 1 suspended, but not stored on disk; 2 not suspended.`;

/** Adds `seinectl policy suspend` and `resume`. */
export function addSuspend(policy: Command, { agent, terminal, exitWith }: SuspendContext): void {
  const of = (name: string, description: string): Command =>
    policy
      .command(name)
      .description(description)
      .addOption(new Option('--pod <name>', 'NAMESPACE/NAME').conflicts(['namespace', 'node']))
      .addOption(new Option('--namespace <name>', 'all its pods on this node').conflicts(['node']))
      .addOption(new Option('--node', 'all pods of this node'));
  of('suspend', 'suspend policies for some pods of this node for a limited time')
    .requiredOption('--for <time>', 'how long, e.g. 90s, 10m or 2h; at most a day', secondsUpToADay)
    .requiredOption('--reason <text>', 'why, in one line of 200 characters at most')
    .addHelpText('after', suspendHelp)
    .action((options: TargetOptions & { readonly for: number; readonly reason: string }, command: Command) =>
      exitWith(suspend(agent(), terminal, { ...targetOf(options, command), seconds: String(options.for), reason: options.reason })),
    );
  of('resume', 'end suspensions of policies').action((options: TargetOptions, command: Command) =>
    exitWith(resume(agent(), terminal, targetOf(options, command))),
  );
}

type AskedTarget = { readonly what: string; readonly name: string };

function targetOf({ pod, namespace, node }: TargetOptions, command: Command): AskedTarget {
  if (pod !== undefined) return { what: 'pod', name: pod.includes('/') ? pod : `default/${pod}` };
  if (namespace !== undefined) return { what: 'namespace', name: namespace };
  return node ? { what: 'node', name: '' } : command.error('error: one of --pod, --namespace and --node is required');
}

type AskedSuspension = AskedTarget & { readonly seconds: string; readonly reason: string };

async function suspend(agent: AgentClient, terminal: Terminal, asked: AskedSuspension): Promise<number> {
  const { suspension, isRemembered } = (await agent.json(
    `/v1/policy/suspend?${new URLSearchParams({ ...asked })}`,
    'POST',
  )) as SuspensionAnswer;
  if (suspension) terminal.line(safeLine(suspensionLine(suspension)));
  return remembered(terminal, isRemembered);
}

async function resume(agent: AgentClient, terminal: Terminal, asked: AskedTarget): Promise<number> {
  const { was, isRemembered } = (await agent.json(`/v1/policy/resume?${new URLSearchParams({ ...asked })}`, 'POST')) as SuspensionAnswer;
  terminal.line(was ? 'policies are in force again' : 'nothing of exactly this was suspended');
  return remembered(terminal, isRemembered);
}

function remembered(terminal: Terminal, isRemembered: boolean): number {
  if (!isRemembered) terminal.remark('not stored on disk: a restarted agent does not continue it');
  return isRemembered ? exitCodes.ok : exitCodes.different;
}

/** Lines about all suspensions, not escaped yet. */
export async function suspensionLines(agent: AgentClient): Promise<readonly string[]> {
  const { items } = (await agent.json('/v1/policy/suspensions')) as Items<SuspensionView>;
  return items.map(suspensionLine);
}

function suspensionLine({ what, name, until, pods, reason }: SuspensionView): string {
  return `suspended: ${what === 'node' ? 'this node' : `${what} ${name}`} until ${until}, ${count(pods, 'pod')} here: ${reason}`;
}
