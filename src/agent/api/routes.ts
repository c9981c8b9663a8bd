import { SeineError } from '../../errors/seine-error.ts';
import type { Exporter } from '../metrics/exporter.ts';
import { scrapeAgent, scrapeProcess } from '../metrics/scrape.ts';
import { pauseSecondsMax } from '../repair-pause.ts';
import { type ApiRoutes, json, text } from './answer.ts';
import { serviceExplanation } from './explain-route.ts';
import { inputs } from './inputs-view.ts';
import { differences, flows, groups, meters, nodes, owners, pods, ports, routes, services } from './lists.ts';
import { agentStatus, type StatusSources } from './status-view.ts';

export interface RouteSources extends StatusSources {
  readonly exporter: Exporter;
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
    '/v1/diff': (_, signal) => differences(agent, signal),
    '/v1/owners': () => owners(agent),
    '/v1/inputs': () => inputs(agent),
  };
}

/** What root on this node may change, all of it for a while only. */
export function operatorActions({ agent: { repair } }: Pick<RouteSources, 'agent'>): ApiRoutes {
  return {
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
