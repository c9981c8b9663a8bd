import { abortable } from '../async/abortable.ts';
import { pause } from '../async/pause.ts';
import { SeineError } from '../errors/seine-error.ts';
import type { Log } from '../log/log.ts';
import type { Agent } from './agent.ts';
import { commandsFor, type ForeignChain, foreignChains, openChains, suspects } from './foreign-chains.ts';
import { type Blocked, findBlocked } from './foreign-firewall.ts';
import type { LiveEnvironment } from './live-environment.ts';

/** How long others may take to change their tables (ms). */
const SETTLE_MS = 500;
/** The older packet filter (`iptables-legacy`) tells nobody when it changes (ms). */
const LOOK_EVERY_MS = 60_000;
/** So many chains are named. */
const CHAINS_NAMED_MAX = 4;

/** Under this name the findings stand among the agent's warnings. */
const WARNING = 'firewall';

export interface FirewallWatch {
  readonly live: LiveEnvironment;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/**
 * Finds out whether somebody else's packet filter drops what pods send through the node, and says which rule would help; under
 * `hostFirewall: manage` adds it. Nothing is ever taken away.
 */
export async function watchFirewall(agent: Agent, { live, log, signal }: FirewallWatch): Promise<void> {
  const { plane, readiness } = agent;
  signal.addEventListener('abort', () => plane.foreignFirewall.ring(), { once: true });
  let before = '';
  while (!signal.aborted) {
    try {
      await readiness.whenReady(signal);
      const found = await look(agent, live, log, signal);
      log.working('firewall test');
      if (found.join() !== before) report(agent, found, log);
      before = found.join();
    } catch (thrown) {
      if (signal.aborted) return;
      log.failing('firewall test', 'whether somebody else’s packet filter drops pods’ packets is not known', {
        cause: SeineError.from(thrown, 'test the packet filter').message,
      });
    }
    const patience = AbortSignal.any([signal, AbortSignal.timeout(LOOK_EVERY_MS)]);
    await abortable(plane.foreignFirewall.wait(), patience).catch(() => undefined); // time to look again, or to end
    await pause(SETTLE_MS, signal);
  }
}

/** @returns sentences; empty if all is well */
async function look(agent: Agent, live: LiveEnvironment, log: Log, signal: AbortSignal): Promise<readonly string[]> {
  const { plane, config } = agent;
  let blocked = await findBlocked(plane, live.current, signal);
  if (blocked.length === 0) return [];
  const chains = suspects(foreignChains(plane.nftables), blocked);
  if (config.hostFirewall === 'manage' && openChains(plane.nftables, chains, config.hostGateway) > 0) {
    log.warn('somebody else’s packet filter dropped pods’ packets; it lets them through now', { chains: chains.map(nameOf) });
    blocked = await findBlocked(plane, live.current, signal);
    if (blocked.length === 0) return [];
  }
  return describe(blocked, chains, config.hostGateway);
}

function describe(blocked: readonly Blocked[], chains: readonly ForeignChain[], gateway: string): readonly string[] {
  return blocked.map((each) => {
    const way = each.hook === 'forward' ? 'pods send through this node' : 'pods send to this node';
    const named = suspects(chains, [each]).slice(0, CHAINS_NAMED_MAX);
    const help = named.flatMap((chain) => commandsFor(chain, gateway));
    const cure = help.length === 0 ? 'no chain of nftables is known to do it' : `to let them through: ${help.join('; ')}`;
    return `somebody else's packet filter drops ${each.family === 'ipv4' ? 'IPv4' : 'IPv6'} packets that ${way}; ${cure}`;
  });
}

function nameOf({ family, table, name }: ForeignChain): string {
  return `${family} ${table} ${name}`;
}

function report({ warnings, tell }: Agent, found: readonly string[], log: Log): void {
  if (found.length === 0) {
    warnings.delete(WARNING);
    log.info('no packet filter drops pods’ packets any more');
    return;
  }
  warnings.set(WARNING, found);
  for (const problem of found) log.error(problem);
  tell('FirewallDropsPods', found.join('. '), 'Warning');
}
