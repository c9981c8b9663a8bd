import type { CheckEvent } from '../../api/check.ts';
import { seineVersion } from '../../api/version.ts';
import { within } from '../../base/async/time-limit.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { type CheckContext, machineClocks } from '../diagnose/checks/check.ts';
import { type CheckPorts, checksOf } from '../diagnose/checks/checks.ts';
import { runChecks } from '../diagnose/checks/run-checks.ts';
import { type Blocked, findBlocked, type TestPacketPort } from '../diagnose/firewall/foreign-firewall.ts';
import type { ApiAnswer } from './answer.ts';

/** Number of other nodes that the tunnel check tries, unless the request names another number. */
const PEERS_DEFAULT = 16;
const PEERS_MAX = 100_000;
const SECONDS_DEFAULT = 25;
const SECONDS_MAX = 600;

export type CheckRoutePort = CheckPorts & TestPacketPort & { readonly config: { readonly nodeName: string; readonly cniSocket: string } };

/**
 * `POST /v1/check?peers=16|peer=NAME&seconds=25`: runs the checks and answers with their findings as they arrive, a line of JSON for each
 * ({@link CheckEvent}). Not a GET: it sends packets.
 *
 * @throws SeineError `INVALID_INPUT` for an invalid query
 */
export function check(port: CheckRoutePort, query: URLSearchParams, signal: AbortSignal): ApiAnswer {
  const peers = peersOf(query);
  const seconds = wholeNumber(query, 'seconds', SECONDS_DEFAULT, SECONDS_MAX);
  const limited = within(signal, seconds * 1_000);
  let blocked: Promise<readonly Blocked[]> | undefined;
  const context: CheckContext = {
    peers,
    clocks: machineClocks,
    blocked: async () => await (blocked ??= findBlocked(port, port.running().environment, limited)),
  };
  return { status: 200, contentType: 'application/x-ndjson', body: lines(port, context, limited) };
}

async function* lines(port: CheckRoutePort, context: CheckContext, signal: AbortSignal): AsyncGenerator<string> {
  const { config } = port;
  const checks = checksOf(port);
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
