import type { Finding } from '../../agent-api/check.ts';
import { commandsFor, type ForeignChain, foreignChains, suspects } from '../foreign-chains.ts';
import type { Blocked } from '../foreign-firewall.ts';
import { type Check, fine, tellAll, trouble } from './check.ts';

/** Whether somebody else's packet filter drops what pods send through this node, or to it: found with packets. */
export const packetFilters: Check = {
  name: 'firewall.pods',
  run: async ({ agent: { plane, config }, blocked: find }, tell) => {
    const blocked = await find();
    tellAll(tell, judgeBlocked(blocked, blocked.length === 0 ? [] : foreignChains(plane.nftables), config.hostGateway));
  },
};

export function judgeBlocked(blocked: readonly Blocked[], chains: readonly ForeignChain[], gateway: string): readonly Finding[] {
  if (blocked.length === 0) return [fine('firewall.pods', 'packets as if from a pod come through this node, and to it')];
  return blocked.map((each) => {
    const family = each.family === 'ipv4' ? 'IPv4' : 'IPv6';
    const culprits = suspects(chains, [each]);
    const commands = culprits.flatMap((chain) => commandsFor(chain, gateway));
    const named = culprits.map((chain) => `${chain.family} ${chain.table} ${chain.name}`).join(', ');
    return trouble('firewall.pods', 'problem', {
      what: `${family} packets that pods send ${each.hook === 'forward' ? 'through' : 'to'} this node are dropped${named === '' ? ' by nobody that nftables knows' : `, by one of: ${named}`}`,
      effect:
        each.hook === 'forward'
          ? 'pods do not reach the world, nor nodes outside of the tunnel'
          : 'pods do not reach this node’s own services, and its probes may fail',
      mend: commands.length > 0 ? commands.join('; ') : 'iptables-legacy -S; nft list ruleset',
    });
  });
}
