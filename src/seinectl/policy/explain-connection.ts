import { isIP } from 'node:net';
import { type Command, InvalidArgumentError } from 'commander';
import type { ConnectionPolicyView } from '../../api/policy.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { AgentClient } from '../agent-client.ts';
import { safeLine, safeText } from '../escape.ts';
import { exitCodes } from '../exit-codes.ts';
import type { AgentsContext, ClusterFlags } from '../fleet/agents-command.ts';
import { addClusterOptions, clusterHelp, isLocal, runWithAgents } from '../fleet/agents-of-command.ts';
import { type OutputForm, outputOption, print } from '../output.ts';
import type { RecordedSource } from '../recorded/recorded-source.ts';
import { refusedAnswer } from '../refused-answer.ts';
import type { Terminal } from '../terminal.ts';
import { timeOption } from '../time-option.ts';
import { connectionLines } from './connection-lines.ts';

interface ExplainConnectionContext extends AgentsContext {
  /** Called with the exit code. */
  readonly exitWith: (work: Promise<number>) => Promise<void>;
}

type ExplainFlags = ClusterFlags & { readonly output: OutputForm; readonly at?: number; readonly bundle?: readonly string[] };

const help = `
Each end is decided on the node of its pod; with a kubeconfig the agents of both nodes are asked. For a connection to a Service, specify the endpoint, not
the Service.
${clusterHelp}

Examples:
  seinectl policy explain shop/api shop/db 5432
  seinectl policy explain 192.0.2.7 shop/db 53/UDP
  seinectl policy explain shop/api 198.51.100.7        all ports
  seinectl policy explain shop/api shop/db 5432 --at 10m

With --at, the rows that the agents wanted at that time decide, which name the rules; labels of that time are not recorded.

Exit codes: 0 allowed as far as the nodes decide; 1 denied, or for some ports or addresses; 2 no such pod, or a time that is not recorded; 3 an agent
that cannot answer.`;

/** Adds `seinectl policy explain`. */
export function addPolicyExplain(policy: Command, context: ExplainConnectionContext): void {
  addClusterOptions(
    policy
      .command('explain')
      .description('show whether policies allow a connection, which ones decide, and what would change the decision')
      .argument('<from>', 'NAMESPACE/POD, NAME or an address')
      .argument('<to>', 'NAMESPACE/POD, NAME or an address; one of the two is a pod')
      .argument('[port]', 'PORT or PORT/PROTOCOL (TCP, UDP, SCTP); default: all', portAndProtocol),
  )
    .option('--at <time>', 'at this time, as far as it was recorded: 90s, 30m or 2h ago, or a time (RFC 3339)', timeOption)
    .option(
      '--bundle <file>',
      'with --at: history in this archive of seinectl collect, or folder; once for each node',
      (value: string, before: readonly string[] | undefined) => [...(before ?? []), value],
    )
    .addOption(outputOption(['table', 'json', 'yaml']))
    .addHelpText('after', help)
    .action((from: string, to: string, port: string | undefined, flags: ExplainFlags) => {
      const connection = { from: fullName(from), to: fullName(to), ...(port === undefined ? {} : { port }) };
      const { at, bundle } = flags;
      if (at !== undefined) return context.exitWith(explainPast(context, connection, { ...flags, at }));
      if (bundle) throw new SeineError('INVALID_INPUT', `--bundle: ${bundle.join(', ')} needs --at TIME`);
      return context.exitWith(explainOnNodes(context, connection, flags));
    });
}

/** @param name an address is returned unchanged */
export function fullName(name: string): string {
  return name.includes('/') || isIP(name) !== 0 ? name : `default/${name}`;
}

function portAndProtocol(text: string): string {
  const [, port = '', protocol = 'TCP'] = /^(\d{1,5})(?:\/(TCP|UDP|SCTP))?$/i.exec(text) ?? [];
  if (Number(port) < 1 || Number(port) > 65_535) throw new InvalidArgumentError('must be a port from 1 to 65535, e.g. 80 or 53/UDP.');
  return `${Number(port)}/${protocol.toUpperCase()}`;
}

interface ConnectionEnds {
  readonly from: string;
  readonly to: string;
  readonly port?: string;
}

function explainOnNodes(context: AgentsContext, connection: ConnectionEnds, flags: ExplainFlags): Promise<number> {
  const { from, to, port } = connection;
  return runWithAgents(context, flags, {
    pods: [from, to],
    output: flags.output,
    args: ['policy', 'explain', from, to, ...(port === undefined ? [] : [port])],
    run: (agent, terminal, form) => explain(agent, connection, form, terminal).catch((thrown: unknown) => refusedAnswer(thrown, terminal)),
  });
}

async function explain(agent: AgentClient, connection: ConnectionEnds, form: OutputForm, terminal: Terminal): Promise<number> {
  const view = (await agent.json(`/v1/policy/explain?${new URLSearchParams({ ...connection })}`)) as ConnectionPolicyView;
  if (form === 'json' || form === 'yaml') print(terminal, view, form);
  else for (const line of connectionLines(view)) terminal.line(safeLine(line));
  return view.verdict === 'allow' ? exitCodes.ok : exitCodes.different;
}

/** Explains with the histories in files, of this node, or of the nodes of both ends. @returns the exit code */
async function explainPast(
  { agent, env, terminal }: ExplainConnectionContext,
  connection: ConnectionEnds,
  flags: ExplainFlags & { readonly at: number },
): Promise<number> {
  // Compilers are loaded on use: all other commands start faster without them.
  const { connectionAt, pastConnectionLines } = await import('../recorded/connection-at.ts');
  const { agentSource, fileSource } = await import('../recorded/recorded-source.ts');
  const answer = async (sources: readonly RecordedSource[]): Promise<number> => {
    const past = await connectionAt(sources, connection, flags.at);
    if (flags.output === 'json' || flags.output === 'yaml') print(terminal, past, flags.output);
    else for (const line of pastConnectionLines(past)) terminal.line(safeLine(line));
    return past.verdict === 'allow' ? exitCodes.ok : exitCodes.different;
  };
  const { sourcesFailure, withClusterSources } = await import('../recorded/cluster-sources.ts');
  const isHere = isLocal(agent(), flags);
  try {
    if (flags.bundle) return await answer(await Promise.all(flags.bundle.map(fileSource)));
    if (isHere) return await answer([agentSource(agent())]);
    const ends = flags.node === undefined ? [connection.from, connection.to] : [`node:${flags.node}`];
    return await withClusterSources(ends, { ...flags, namespace: flags.agentNamespace }, env, ({ ofEnds }) => answer(ofEnds));
  } catch (thrown) {
    // Exit code 1 is a denial, and not an agent that records nothing.
    if (isHere && SeineError.from(thrown, 'seinectl').code === 'UNAVAILABLE') throw thrown;
    const { text, isInvalid } = sourcesFailure(thrown, flags.agentNamespace);
    terminal.remark(safeText(`seinectl: ${text}`));
    return isInvalid ? exitCodes.usage : exitCodes.unreachable;
  }
}
