import { SeineError } from '../../errors/seine-error.ts';
import type { LogControl } from '../../log/log.ts';
import { check } from '../check/route.ts';
import type { Exporter } from '../metrics/exporter.ts';
import { scrapeAgent, scrapeProcess } from '../metrics/scrape.ts';
import { pauseSecondsMax } from '../repair-pause.ts';
import { type ApiRoutes, json, text } from './answer.ts';
import { configuration, lastLines, leases, logLevel, setLogLevel } from './diagnostics.ts';
import { podExplanation } from './explain-pod.ts';
import { serviceExplanation } from './explain-route.ts';
import { inputs } from './inputs-view.ts';
import { differences, flows, groups, meters, nodes, owners, pods, ports, routes, services } from './lists.ts';
import { agentStatus, type StatusSources } from './status-view.ts';

export interface RouteSources extends StatusSources {
  readonly exporter: Exporter;
  readonly control: LogControl;
}

/** What may be asked over the network: nothing that says who is on this node. */
export function publicRoutes({ agent, record, exporter }: RouteSources): ApiRoutes {
  return {
    '/livez': () => text('ok'),
    '/readyz': () => {
      const state = agent.readiness.state();
      return json(state, state.state === 'ready' ? 200 : 503);
    },
    '/metrics': async (_, signal) => ({
      status: 200,
      contentType: exporter.contentType,
      body: await exporter.text({ ...scrapeProcess(), ...(await scrapeAgent(agent, record, signal)) }),
    }),
  };
}

/** Everything, for root on this node. What is there is read from switch, kernel and packet filter when it is asked for. */
export function operatorRoutes(sources: RouteSources): ApiRoutes {
  const { agent } = sources;
  return {
    ...publicRoutes(sources),
    '/v1/status': async (_, signal) => json(await agentStatus(sources, signal)),
    '/v1/pods': (query, signal) => pods(agent, query, signal),
    '/v1/nodes': (query, signal) => nodes(agent, query, signal),
    '/v1/services': (query, signal) => services(agent, query, signal),
    '/v1/flows': (query, signal) => flows(agent, query, signal),
    '/v1/groups': (query, signal) => groups(agent, query, signal),
    '/v1/meters': (query, signal) => meters(agent, query, signal),
    '/v1/ports': (query, signal) => ports(agent, query, signal),
    '/v1/routes': (query, signal) => routes(agent, query, signal),
    '/v1/explain/service': (query) => serviceExplanation(agent, query),
    '/v1/explain/pod': (query, signal) => podExplanation(agent, query, signal),
    '/v1/diff': (_, signal) => differences(agent, signal),
    '/v1/owners': () => owners(agent),
    '/v1/inputs': () => inputs(agent),
    '/v1/config': () => configuration(agent),
    '/v1/leases': () => leases(agent),
    '/v1/logs': () => lastLines(sources.control),
    '/v1/log-level': () => logLevel(sources.control),
  };
}

/** What root on this node may change, all of it for a while only; and tests that send packets. */
export function operatorActions({ agent, control }: Pick<RouteSources, 'agent' | 'control'>): ApiRoutes {
  const { repair } = agent;
  return {
    '/v1/log-level': (query) => setLogLevel(control, query),
    '/v1/check': (query, signal) => check(agent, query, signal),
    '/v1/pause': (query) => {
      const seconds = Number(query.get('seconds'));
      if (!Number.isInteger(seconds) || seconds < 1 || seconds > pauseSecondsMax)
        throw new SeineError('INVALID_INPUT', `seconds: a whole number from 1 to ${pauseSecondsMax}`);
      repair.pause(seconds);
      return json({ pausedForSeconds: repair.secondsLeft });
    },
    '/v1/resume': () => {
      const wasPaused = repair.secondsLeft > 0;
      repair.resume('asked for');
      return json({ wasPaused });
    },
  };
}
