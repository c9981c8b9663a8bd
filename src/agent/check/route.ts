import type { CheckEvent } from '../../agent-api/check.ts';
import { seineVersion } from '../../agent-api/version.ts';
import { SeineError } from '../../errors/seine-error.ts';
import type { Agent } from '../agent.ts';
import type { ApiAnswer } from '../api/answer.ts';
import { running } from '../api/lists.ts';
import { type Blocked, findBlocked } from '../foreign-firewall.ts';
import { type CheckContext, machineClocks } from './check.ts';
import { checks } from './checks.ts';
import { runChecks } from './run-checks.ts';

/** Of other nodes, so many are asked unless more are asked for. */
const PEERS_DEFAULT = 16;
const PEERS_MAX = 100_000;
const SECONDS_DEFAULT = 25;
const SECONDS_MAX = 600;

/**
 * `POST /v1/check?peers=16|peer=NAME&seconds=25`: looks at the node and tells what it finds as it finds it, a line of JSON for
 * each ({@link CheckEvent}). Not a GET: it sends packets.
 *
 * @throws SeineError `INVALID_INPUT` for a query that makes no sense
 */
export function check(agent: Agent, query: URLSearchParams, signal: AbortSignal): ApiAnswer {
  const peers = peersOf(query);
  const seconds = wholeNumber(query, 'seconds', SECONDS_DEFAULT, SECONDS_MAX);
  const limited = AbortSignal.any([signal, AbortSignal.timeout(seconds * 1_000)]);
  let blocked: Promise<readonly Blocked[]> | undefined;
  const context: CheckContext = {
    agent,
    peers,
    clocks: machineClocks,
    blocked: async () => await (blocked ??= findBlocked(agent.plane, running(agent).environment, limited)),
  };
  return { status: 200, contentType: 'application/x-ndjson', body: lines(context, limited) };
}

async function* lines(context: CheckContext, signal: AbortSignal): AsyncGenerator<string> {
  const { config } = context.agent;
  const facts = { version: seineVersion, cniSocket: config.cniSocket };
  yield line({ kind: 'plan', node: config.nodeName, facts, checks: checks.map(({ name }) => name) });
  for await (const news of runChecks(checks, context, signal)) yield line(news);
  yield line({ kind: 'end' });
}

function line(event: CheckEvent): string {
  return `${JSON.stringify(event)}\n`;
}

function peersOf(query: URLSearchParams): CheckContext['peers'] {
  const name = query.get('peer');
  return name === null ? { most: wholeNumber(query, 'peers', PEERS_DEFAULT, PEERS_MAX) } : { name };
}

function wholeNumber(query: URLSearchParams, name: string, otherwise: number, most: number): number {
  const text = query.get(name);
  if (text === null) return otherwise;
  const value = Number(text);
  if (!/^\d{1,6}$/.test(text) || value > most) throw new SeineError('INVALID_INPUT', `${name}: a whole number up to ${most}`);
  return value;
}
