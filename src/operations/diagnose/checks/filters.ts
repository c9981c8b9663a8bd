import type { Finding } from '../../../api/check.ts';
import type { Family } from '../../../base/net/ip.ts';
import type { NodeEnvironment } from '../../../dataplane/compile/environment.ts';
import type { Nftables } from '../../../netlink/nftables/nftables.ts';
import { isForwarding } from '../../../netlink/sysctl.ts';
import { commandsFor, type ForeignChain, foreignChains, suspects } from '../firewall/foreign-chains.ts';
import type { Blocked } from '../firewall/foreign-firewall.ts';
import { type Check, fine, reportAll, trouble } from './check.ts';

export interface PacketFiltersPort {
  readonly nftables: Pick<Nftables, 'run'>;
  readonly config: { readonly hostGateway: string };
  /** @throws SeineError `UNAVAILABLE` until the node is known */
  readonly running: () => { readonly environment: Pick<NodeEnvironment, 'podCidrs'> };
}

/** Checks with test packets whether other firewall rules drop packets that pods send through this node, or to it. */
export function packetFilters({ nftables, config, running }: PacketFiltersPort): Check {
  return {
    name: 'firewall.pods',
    run: async ({ blocked: find }, reporter) => {
      const blocked = await find();
      const unforwarded = running().environment.podCidrs.flatMap(({ family }) =>
        isForwarding(family, config.hostGateway) ? [] : [family],
      );
      reportAll(reporter, assessBlocked(blocked, blocked.length === 0 ? [] : foreignChains(nftables), config.hostGateway, unforwarded));
    },
  };
}

/** @param unforwarded families that the kernel does not forward: they cannot be tested */
export function assessBlocked(
  blocked: readonly Blocked[],
  chains: readonly ForeignChain[],
  gateway: string,
  unforwarded: readonly Family[],
): readonly Finding[] {
  const unknown = [...new Set(unforwarded)].map(notForwarded);
  if (blocked.length === 0 && unknown.length > 0) return unknown;
  return [...unknown, ...assessTried(blocked, chains, gateway)];
}

function notForwarded(family: Family): Finding {
  const [name, setting] = family === 'ipv4' ? ['IPv4', 'net.ipv4.ip_forward'] : ['IPv6', 'net.ipv6.conf.all.forwarding'];
  return trouble('firewall.pods', 'unknown', {
    what: `not known for ${name}: this node forwards nothing (kernel.settings)`,
    effect: 'firewall rules can be tested only once the node forwards',
    remedy: `sysctl -w ${setting}=1`,
  });
}

function assessTried(blocked: readonly Blocked[], chains: readonly ForeignChain[], gateway: string): readonly Finding[] {
  if (blocked.length === 0) return [fine('firewall.pods', 'test packets from a pod address pass through this node, and reach it')];
  return blocked.map((each) => {
    const family = each.family === 'ipv4' ? 'IPv4' : 'IPv6';
    const culprits = suspects(chains, [each]);
    const commands = culprits.flatMap((chain) => commandsFor(chain, gateway));
    const named = culprits.map((chain) => `${chain.family} ${chain.table} ${chain.name}`).join(', ');
    return trouble('firewall.pods', 'problem', {
      what: `${family} packets that pods send ${each.hook === 'forward' ? 'through' : 'to'} this node are dropped${named === '' ? ', not by nftables' : `, by one of: ${named}`}`,
      effect:
        each.hook === 'forward'
          ? 'pods cannot reach external addresses, or nodes outside of the tunnel'
          : 'pods do not reach this node’s own services, and its probes may fail',
      remedy: commands.length > 0 ? commands.join('; ') : 'iptables-legacy -S; nft list ruleset',
    });
  });
}
