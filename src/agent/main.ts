import { parseArgs } from 'node:util';
import { seineVersion } from '../api/version.ts';
import { SeineError } from '../base/errors/seine-error.ts';
import { privateFolder } from '../base/files/private-folder.ts';
import { createLog, type Log } from '../base/log/log.ts';
import type { NodeStateEvents } from '../dataplane/targets/target-options.ts';
import { Observability } from '../operations/admin/observability.ts';
import { createAgent } from './agent.ts';
import { configInForce, keepConfig } from './config/config-file.ts';
import { AgentRecording } from './history/agent-recording.ts';

const usage = `Usage: seine-agent [--config FILE]

Runs Seine's node agent: configures Open vSwitch, routes and nftables of this node for the cluster,
and serves the CNI plugin. Needs root.

  --config FILE   configuration in YAML (default /etc/seine/agent.yaml); docs/configuration.md has its keys
  --version       the version of Seine
  --help          this text

Exit code: 0 after SIGTERM or SIGINT, 2 if the command line or the configuration is invalid, 1 for any other error.
`;

const options = {
  config: { type: 'string', default: '/etc/seine/agent.yaml' },
  version: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const;

/** @throws SeineError `INVALID_INPUT` for an unknown option */
function commandLine() {
  try {
    return parseArgs({ options }).values;
  } catch (cause) {
    throw new SeineError(
      'INVALID_INPUT',
      `command line: ${cause instanceof Error ? cause.message : String(cause)}; see seine-agent --help`,
    );
  }
}

async function main(): Promise<void> {
  const values = commandLine();
  if (values.help || values.version) {
    process.stdout.write(values.help ? usage : `${seineVersion}\n`);
    return;
  }
  // Files created by us or by our child processes are for root alone.
  process.umask(0o077);
  const { config, text, warnings } = configInForce(values.config, process.env);
  privateFolder(config.stateDir);
  const programLog = createLog(config.logLevel);
  const log = programLog.child({ node: config.nodeName });
  for (const warning of warnings) log.warn('part of the configuration is not in force', { cause: warning });
  if (text !== undefined) await remember(config.stateDir, text, log);
  const stop = new AbortController();
  for (const name of ['SIGTERM', 'SIGINT'] as const) process.once(name, () => stop.abort(new SeineError('CANCELLED', `${name} received`)));
  log.info('agent starts', { bridge: config.ovsBridge, dataPath: config.ovsDatapathType, tunnel: config.tunnelType });
  const observability = new Observability(log, programLog.control);
  const recording = new AgentRecording(config, log);
  const hooks = { ...observability.hooks(loggedEvents(log)), recording };
  const agent = createAgent(config, hooks, log, stop.signal, { warnings, isFormer: text === undefined });
  const recorded = recording.history.run(stop.signal);
  await observability.open(agent.admin, stop.signal);
  try {
    await agent.run();
  } catch (thrown) {
    if (!stop.signal.aborted) throw thrown;
  } finally {
    stop.abort();
    await observability.close();
    await recorded;
  }
  log.info('agent stops');
}

/** Without it a later invalid file has no replacement; that is no reason not to run. */
async function remember(stateDir: string, text: string, log: Log): Promise<void> {
  try {
    await keepConfig(stateDir, text);
  } catch (thrown) {
    log.warn('the configuration could not be stored', { cause: thrown instanceof Error ? thrown.message : String(thrown) });
  }
}

/** A refusal may quote a line of nftables rules, which names from outside may have made long. */
const CAUSE_CHARACTERS_MAX = 300;

function loggedEvents(log: Log): NodeStateEvents {
  return {
    round: (part, result) => log.debug('reconciled', { part, ...result }),
    failure: (part, error) => log.failing(`part ${part}`, 'reconciliation failed, retrying', { part, cause: error.message }),
    recovered: (part) => log.working(`part ${part}`),
    refused: (part, owner, error) => log.failing(`${part} ${owner}`, 'entries are refused', { part, owner, cause: error.message }, 'error'),
    accepted: (part, owner) => log.working(`${part} ${owner}`),
    // Repeated repairs of the same entries are a conflict; others are news.
    drift: (part, keys) =>
      log.failing(`drift of ${part} ${keys.length} ${keys[0]}`, 'foreign change; repaired', {
        part,
        entries: keys.length,
        cause: 'not by this agent',
      }),
    notInPlace: (tables, { message }) =>
      log.failing('nftables in place', 'rules of nftables could not be replaced in place; their tables are replaced with their sets', {
        tables,
        cause: message.slice(0, CAUSE_CHARACTERS_MAX),
      }),
    repaired: (part, tookMs) => log.info('foreign change repaired', { part, tookMs: Math.round(tookMs) }),
  };
}

main().catch((thrown: unknown) => {
  const error = SeineError.from(thrown, 'agent');
  const usersMistake = error.code === 'INVALID_INPUT';
  const line = { level: 'error', time: new Date().toISOString(), msg: 'agent ends', error: error.message, context: error.context };
  process.stderr.write(`${JSON.stringify(usersMistake ? line : { ...line, stack: error.stack })}\n`);
  process.exit(usersMistake ? 2 : 1);
});
