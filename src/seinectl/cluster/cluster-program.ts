import { Command, CommanderError } from 'commander';
import { defaultPaths } from '../../api/default-paths.ts';
import { seineVersion } from '../../api/version.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { AgentClient } from '../agent-client.ts';
import { addCapture } from '../capture/capture-command.ts';
import { safeText } from '../escape.ts';
import { exitCodes } from '../exit-codes.ts';
import { addExplain } from '../explain-commands.ts';
import { addFlows } from '../flows/flows-command.ts';
import { addDenied } from '../policy/denied-commands.ts';
import { addPolicyExplain } from '../policy/explain-connection.ts';
import { addPodPolicy } from '../policy/pod-policy-command.ts';
import type { Terminal } from '../terminal.ts';
import { addTimeline } from '../timeline/timeline-command.ts';
import { addTrace } from '../trace/trace-command.ts';
import { addUi } from '../ui/ui-command.ts';
import { addCluster } from './cluster-command.ts';

const onNodes = `
This seinectl has the commands that need no node. On a node, all commands of its seinectl:
  kubectl -n seine-system exec POD -c agent -- seinectl COMMAND`;

/**
 * Runs a command line of the `seinectl` that comes as an npm package: for macOS, and every other host that is not a node. It has the
 * commands for agents of other nodes, and loads no native module.
 *
 * @returns the exit code
 */
export async function runCluster(
  args: readonly string[],
  terminal: Terminal,
  env: Readonly<Record<string, string | undefined>>,
): Promise<number> {
  let code: number = exitCodes.ok;
  const exitWith = async (work: Promise<number>): Promise<void> => {
    code = await work;
  };
  const root = new Command('seinectl')
    .description('Shows the state of Seine’s agents on all nodes.')
    .version(seineVersion, '--version', 'print the version of seinectl')
    .helpCommand('help [command]', 'help about a command')
    .addHelpText('after', onNodes)
    .showHelpAfterError(onNodes)
    .exitOverride()
    .configureOutput({ writeErr: (text) => terminal.remark(text.trimEnd()), writeOut: (text) => terminal.line(text.trimEnd()) });
  addCluster(root, { terminal, env, exitWith });
  const context = { agent: () => new AgentClient(defaultPaths.apiSocket), terminal, env, exitWith };
  addTrace(root, context);
  addFlows(root, context);
  addTimeline(root, { ...context, isOnNode: false });
  addExplain(root, context);
  const policy = root.command('policy').description('show what NetworkPolicies and ClusterNetworkPolicies do');
  addPodPolicy(policy, context);
  addPolicyExplain(policy, context);
  addDenied(policy, context);
  addCapture(root, context);
  addUi(root, context);
  try {
    await root.parseAsync([...args], { from: 'user' });
    return code;
  } catch (thrown) {
    if (thrown instanceof CommanderError) return thrown.exitCode === 0 ? exitCodes.ok : exitCodes.usage;
    const error = SeineError.from(thrown, 'seinectl');
    if (error.code !== 'REFUSED' && error.code !== 'INVALID_INPUT') throw error;
    terminal.remark(`seinectl: ${safeText(error.rawMessage)}`);
    return error.code === 'REFUSED' ? exitCodes.different : exitCodes.usage;
  }
}
