import { parseArgs } from 'node:util';
import { SeineError } from '../errors/seine-error.ts';
import { createLog, type Log } from '../log/log.ts';
import { type Agent, createAgent } from './agent.ts';
import { type ApiRoutes, json, serveApi, text } from './api-server.ts';
import { readConfig } from './config.ts';

const usage = `Usage: seine-agent [--config FILE]

Runs Seine's node agent: keeps Open vSwitch, routes and the packet filter of this node as the cluster wants them,
and serves the CNI plugin. Needs root.

  --config FILE   configuration in YAML (default /etc/seine/agent.yaml)
  --help          this text
`;

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: { config: { type: 'string', default: '/etc/seine/agent.yaml' }, help: { type: 'boolean', default: false } },
  });
  if (values.help) {
    process.stdout.write(usage);
    return;
  }
  const config = readConfig(values.config, process.env);
  const log = createLog(config.logLevel).child({ node: config.nodeName });
  const stop = new AbortController();
  for (const name of ['SIGTERM', 'SIGINT'] as const) process.once(name, () => stop.abort(new SeineError('CANCELLED', `${name} received`)));
  log.info('agent starts', { bridge: config.ovsBridge, dataPath: config.ovsDatapathType, tunnel: config.tunnelType });
  const agent = createAgent(config, { events: loggedEvents(log) }, log, stop.signal);
  const server = await serveApi(routesOf(agent), { socketPath: config.apiSocket });
  try {
    await agent.run();
  } catch (thrown) {
    if (!stop.signal.aborted) throw thrown;
  } finally {
    stop.abort();
    server.close();
    server.closeAllConnections();
  }
  log.info('agent stops');
}

function loggedEvents(log: Log): Parameters<typeof createAgent>[1]['events'] {
  return {
    round: (part, result) => log.debug('made as wanted', { part, ...result }),
    failure: (part, error) => log.warn('not as wanted yet', { part, error: error.message }),
    refused: (part, owner, error) => log.error('a wish was refused', { part, owner, error: error.message }),
    drift: (part, keys) => log.warn('somebody else changed what is ours; it is put back', { part, entries: keys.length }),
  };
}

function routesOf(agent: Agent): ApiRoutes {
  return {
    '/livez': () => text('ok'),
    '/readyz': () => {
      const state = agent.readiness.state();
      return json(state, state.state === 'ready' ? 200 : 503);
    },
  };
}

main().catch((thrown: unknown) => {
  const error = SeineError.from(thrown, 'agent');
  process.stderr.write(
    `${JSON.stringify({ level: 'error', time: new Date().toISOString(), msg: 'agent ends', error: error.message, context: error.context, stack: error.stack })}\n`,
  );
  process.exit(error.code === 'INVALID_INPUT' ? 2 : 1);
});
