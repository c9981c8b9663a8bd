import type { TraceOnward } from '../../api/trace.ts';
import { cidrContains, type Ip } from '../../base/net/ip.ts';
import type { PeerIntent } from '../../dataplane/compile/compile-peer.ts';
import { wireGuardDevice } from '../../dataplane/pipeline/well-known.ts';

/** Other nodes, as this one reaches them. */
export interface ReachedPeers {
  intents(): Iterable<Pick<PeerIntent, 'name' | 'podCidrs' | 'direct'>>;
  modesOf(name: string): readonly { readonly family: string; readonly mode: string }[];
}

/** Returns a function that returns how the kernel sends packets on for pods of another node; undefined for all others. */
export function kernelPaths(peers: ReachedPeers): (destination: Ip) => TraceOnward | undefined {
  let reached: ReturnType<ReachedPeers['intents']>;
  return (destination) => {
    const { family } = destination;
    reached ??= [...peers.intents()].filter(({ direct }) => direct !== undefined);
    for (const { name, podCidrs, direct } of reached) {
      const path = direct?.[family];
      if (!path || !podCidrs.some((network) => cidrContains(network, destination))) continue;
      const device = path.hop?.dev;
      const isBlocked = peers.modesOf(name).some((each) => each.family === family && each.mode === 'blocked');
      const mode = device === wireGuardDevice ? 'wireguard' : 'direct';
      return { node: name, mode: isBlocked ? 'blocked' : mode, ...(device !== undefined && { device }) };
    }
    return undefined;
  };
}
