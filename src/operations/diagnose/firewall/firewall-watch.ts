import { pause } from '../../../base/async/pause.ts';
import { within } from '../../../base/async/time-limit.ts';
import type { Doorbell } from '../../../base/async/wake-signal.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import type { Log } from '../../../base/log/log.ts';
import type { NodeEnvironment } from '../../../dataplane/compile/environment.ts';
import type { Nftables } from '../../../netlink/nftables/nftables.ts';
import type { Readiness } from '../../../nodes/local/readiness.ts';
import { confirmed } from './confirmed.ts';
import { commandsFor, type ForeignChain, foreignChains, openChains, suspects } from './foreign-chains.ts';
import { type Blocked, findBlocked, type TestPacketPort } from './foreign-firewall.ts';

/** Time in which a foreign tool completes several changes of its tables (ms). */
const SETTLE_MS = 500;
/** Interval of tests, because `iptables-legacy` reports no changes (ms). */
const CHECK_EVERY_MS = 60_000;
/** Interval while packets are blocked, so that a fix is noticed soon (ms). */
const CHECK_AGAIN_MS = 5_000;
/** Delay between two tests that must find the same (ms). */
const CONFIRM_MS = 2_000;
/** Maximum number of chains that are named. */
const CHAINS_NAMED_MAX = 4;

/** Name of the findings among the agent's warnings. */
const WARNING = 'firewall';

/** Context of the test, and destination of the findings. */
interface ForeignFirewallPort extends TestPacketPort {
  readonly config: { readonly hostFirewall: 'own' | 'manage'; readonly hostGateway: string };
  readonly nftables: Pick<Nftables, 'run'>;
  readonly readiness: Pick<Readiness, 'whenReady'>;
  /** Rung when nftables tables of other programs have changed. */
  readonly foreignFirewall: Doorbell;
  /** Warnings about the node, as sentences, by the part of the agent that found them. */
  readonly warnings: Map<string, readonly string[]>;
  readonly postNodeEvent: (reason: string, message: string, type: 'Warning') => void;
}

interface ForeignFirewallWatch {
  readonly live: { readonly current: NodeEnvironment };
  readonly log: Log;
  readonly signal: AbortSignal;
}

/**
 * Tests whether other firewall rules drop packets that pods send through the node, after every change and once a minute, and reports which
 * rule would help; under `hostFirewall: manage` adds it. Removes nothing.
 */
export async function watchForeignFirewall(port: ForeignFirewallPort, { live, log, signal }: ForeignFirewallWatch): Promise<void> {
  const { readiness, foreignFirewall } = port;
  let before = '';
  while (!signal.aborted) {
    try {
      await readiness.whenReady(signal);
      const found = await look(port, live, log, signal);
      log.working('firewall test');
      if (found.join() !== before) report(port, found, log);
      before = found.join();
    } catch (thrown) {
      if (signal.aborted) return;
      log.failing('firewall test', 'other firewall rules could not be tested', {
        cause: SeineError.from(thrown, 'test other firewall rules').message,
      });
    }
    const patience = within(signal, before === '' ? CHECK_EVERY_MS : CHECK_AGAIN_MS);
    await foreignFirewall.wait(patience);
    await pause(SETTLE_MS, signal);
  }
}

/** @returns sentences; empty if all is well */
async function look(
  port: ForeignFirewallPort,
  live: ForeignFirewallWatch['live'],
  log: Log,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const { nftables, config } = port;
  const find = () => findBlocked(port, live.current, signal);
  let blocked = await confirmed(find, CONFIRM_MS, signal);
  if (blocked.length === 0) return [];
  const chains = suspects(foreignChains(nftables), blocked);
  if (config.hostFirewall === 'manage' && openChains(nftables, chains, config.hostGateway) > 0) {
    log.warn('added rules to chains of another firewall that dropped pods’ packets', { chains: chains.map(nameOf) });
    blocked = await find();
    if (blocked.length === 0) return [];
  }
  return describe(blocked, chains, config.hostGateway);
}

function describe(blocked: readonly Blocked[], chains: readonly ForeignChain[], gateway: string): readonly string[] {
  return blocked.map((each) => {
    const way = each.hook === 'forward' ? 'pods send through this node' : 'pods send to this node';
    const named = suspects(chains, [each]).slice(0, CHAINS_NAMED_MAX);
    const help = named.flatMap((chain) => commandsFor(chain, gateway));
    const cure = help.length === 0 ? 'no chain of nftables is known to do it' : `to accept them: ${help.join('; ')}`;
    return `other firewall rules drop ${each.family === 'ipv4' ? 'IPv4' : 'IPv6'} packets that ${way}; ${cure}`;
  });
}

function nameOf({ family, table, name }: ForeignChain): string {
  return `${family} ${table} ${name}`;
}

function report({ warnings, postNodeEvent }: ForeignFirewallPort, found: readonly string[], log: Log): void {
  if (found.length === 0) {
    warnings.delete(WARNING);
    log.info('other firewall rules no longer drop packets of pods');
    return;
  }
  warnings.set(WARNING, found);
  for (const problem of found) log.error(problem);
  postNodeEvent('FirewallDropsPods', found.join('. '), 'Warning');
}
